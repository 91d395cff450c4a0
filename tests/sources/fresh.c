// A program whose result says whether its data was fresh: every kind of data that a run leaves changed.
#include <farcall/linked.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int counted = 5;
static int zeroes[5000];
static char text[] = "fresh";
static _Thread_local int own = 7;
static _Thread_local int own_zero;
static int *pointer = &counted;
static const char *const constant = "constant";
int shared_with_others = 3;
static int constructed, handlers;
static uint64_t tag;

int other(int step);

static void tell(const char *what) { farcall_call_controller(tag, what, strlen(what)); }

static int chosen(void) { return 13; }
static int (*choose(void))(void) { return chosen; }
static int indirect(void) __attribute__((ifunc("choose")));

__attribute__((constructor)) static void construct(int argc, char **argv) {
  constructed += 11;
  zeroes[17]++;
  tag = argc > 1 ? strtoull(argv[1], 0, 10) : 0;
}

__attribute__((destructor)) static void destruct(void) { tell("finalizer"); }

static void at_end(void) { tell(handlers++ ? "handler again" : "handler"); }

int main(int argc, char **argv) {
  int sum = 0;
  for (int at = 0; at < 5000; at++) sum += ++zeroes[at];
  sum += counted++ + own++ + own_zero++ + *pointer + constructed + indirect() + other(2) + shared_with_others++;
  sum += strcmp(text, "fresh") ? 1000 : (int)strlen(constant);
  text[0] = 'F';
  pointer = &zeroes[1];
  argv[0][0] = '!';
  atexit(at_end);
  atexit(at_end);
  return argc > 2 && !strcmp(argv[2], "raw") ? sum : sum & 0x7f;
}
