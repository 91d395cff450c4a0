// A version of the function that is replaced.
#include <stdint.h>

#ifdef __aarch64__
#define PAUSE "yield"
#else
#define PAUSE "pause"
#endif

#ifndef VERSION
#define VERSION 0
#endif

extern int64_t counted;

int32_t version(void) {
  __atomic_fetch_add(&counted, 1, __ATOMIC_RELAXED);
  return VERSION;
}

static volatile int32_t is_open, is_inside;

// The same, and does not return before another call opens the gate.
int32_t version_at_gate(void) {
  is_inside = 1;
  while (!is_open) __asm__ volatile(PAUSE);
  return version();
}

struct buffer {
  uint64_t value;
  uint64_t size;
};

// A wrapper function that does so.
struct buffer wait_at_gate(const char *data, uint64_t size) { return (struct buffer){.value = (uint64_t)version_at_gate(), .size = 8}; }

int32_t is_at_gate(void) { return is_inside; }
void open_gate(void) { is_open = 1; }
