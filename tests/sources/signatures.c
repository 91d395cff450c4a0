// Functions for calls by signatures. Compiled with debug information.
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef __x86_64__
#include <emmintrin.h>
#else
typedef float __m128 __attribute__((vector_size(16)));
#endif

struct point {
  double x, y;
};

struct inner {
  float f[2];
};

typedef struct {
  char c;
  struct inner in;
} outer;

enum color { RED, GREEN };

union number {
  long l;
  double d;
};

double scale(long count, double unit) { return count * unit; }

double length(struct point p) { return p.x + p.y; }

int counted(void) {
  static int count;
  return ++count;
}

short mixed(const outer o, enum color color, const char *text, __m128 v, _Bool b) {
  return o.c + color + b + (text != NULL) + (short)v[0];
}

int variadic(int count, ...) { return count; }

int of_union(union number n) { return n.l != 0; }

int quotient(int dividend, int divisor) {
#ifndef __x86_64__
  if (divisor == 0) __builtin_trap();
#endif
  return dividend / divisor;
}

static volatile int is_open;

// Returns its argument; a negative one when `open` was called. Cannot be interrupted.
int wait_for(int number) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  while (number < 0 && !is_open)
    usleep(100);
  pthread_sigmask(SIG_SETMASK, &before, 0);
  return number;
}

void open_gate(void) { is_open = 1; }

struct buffer {
  union {
    char *pointer;
    char bytes[8];
  };
  size_t size;
};

// The first 8 bytes of its arguments.
struct buffer echo(const char *data, size_t size) {
  struct buffer result = {.bytes = {0}, .size = 8};
  memcpy(result.bytes, data, size < 8 ? size : 8);
  return result;
}
