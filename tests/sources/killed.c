// Kills its own process at the moment that the environment names, and lives through the others.
#include <farcall/linked.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void at(const char *moment) {
  const char *wanted = getenv("KILLED_AT");
  if (wanted && strcmp(wanted, moment) == 0) kill(getpid(), SIGKILL);
}

static int chosen_one(void) { return 7; }

// Asked in an action, which is posted.
static int (*choose(void))(void) {
  at("posted initialize");
  return chosen_one;
}
int chosen(void) __attribute__((ifunc("choose")));

static void at_exit(void) { at("exit handler"); }

__attribute__((constructor)) static void first(void) {
  at("initializer");
  atexit(at_exit);
}

__attribute__((destructor)) static void last(void) { at("finalizer"); }

// Calls the tag in its arguments, and returns what it returns.
static struct farcall_result back(const char *data) {
  uint64_t tag;
  memcpy(&tag, data, 8);
  return farcall_call_controller(tag, 0, 0);
}

struct farcall_result function(const char *data, size_t size) {
  at("call");
  struct farcall_result result = back(data);
  at("call, behind a call back");
  return result;
}

// What the controller's handler calls.
struct farcall_result nested(const char *data, size_t size) {
  at("nested call");
  return (struct farcall_result){.size = 8};
}

static void *on_thread(void *data) {
  back(data);
  at("thread, behind a call back");
  return 0;
}

struct farcall_result from_thread(const char *data, size_t size) {
  pthread_t thread;
  pthread_create(&thread, 0, on_thread, (void *)data);
  pthread_join(thread, 0);
  return (struct farcall_result){.size = 8};
}

struct farcall_result wait_for_ever(const char *data, size_t size) {
  for (;;) pause();
}

int main(void) {
  at("main");
  return chosen();
}
