// A function that is chosen by an action at link time: called before that has run, its stub jumps to address 0.
#include <stddef.h>
#include <stdint.h>

struct buffer {
  uint64_t value;
  size_t size;
};

static uint64_t seven(void) { return 7; }

static void *choose(void) { return seven; }

uint64_t chosen(void) __attribute__((ifunc("choose")));

struct buffer answer(const char *data, size_t size) { return (struct buffer){chosen(), 8}; }
