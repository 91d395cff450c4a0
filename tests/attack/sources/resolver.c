// A function whose choice at link time takes five seconds: the action that asks for it is posted ahead of the next call.
#include "attack.h"

static uint64_t seven(void) { return 7; }

static void *choose(void) {
  sleep_ms(5000);
  return seven;
}

uint64_t chosen(void) __attribute__((ifunc("choose")));

struct farcall_result late_answer(const char *data, size_t size) { return answer(chosen()); }
