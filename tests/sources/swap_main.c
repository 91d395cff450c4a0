// A program that calls a function again and again while it is replaced, from threads of its own and from those that serve calls.
#include <pthread.h>
#include <stdint.h>
#include <unistd.h>

int32_t version(void);

// What every version counts in.
int64_t counted;

static volatile int32_t seen[2], is_over;

static int64_t turn_until_over(int which) {
  int64_t turns = 0;
  while (!is_over) {
    seen[which] = version();
    turns++;
  }
  return turns;
}

static void *on_thread(void *unused) { return (void *)turn_until_over(1); }

// Returns when another call ends it; the number of turns that both threads made.
int64_t run(void) {
  pthread_t thread;
  is_over = 0;
  pthread_create(&thread, 0, on_thread, 0);
  int64_t own = turn_until_over(0);
  void *other;
  pthread_join(thread, &other);
  return own + (int64_t)other;
}

int32_t last_seen(int32_t which) { return seen[which]; }
void end(void) { is_over = 1; }
int32_t now(void) { return version(); }
int64_t sum(void) { return counted; }
