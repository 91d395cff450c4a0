// Calls handlers that the controller has defined as C functions.
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

double mix(int8_t, double, uint64_t, float, int, double, int64_t, bool, float, int16_t, double, const void *);
double all_floats(double, double, double, double, double, double, double, double, double, float);
int64_t all_integers(int, int, int, int, int, int, int64_t, int8_t, uint32_t);
uint64_t log_text(double value, const char *text);
int64_t sum(const int16_t *values, size_t count, const char *unit, const double *weights, size_t weights_count);
int64_t again(int64_t depth);
int64_t step(int64_t value);
int checked(int value);
void nothing(void);
float halved(float value);
void *moved(void *address);
bool both(bool one, bool other);

// Twelve arguments of all kinds, some of which lie on the stack in either order.
double call_mix(double base) {
  return mix(-1, base, UINT64_MAX, 1.5f, -70000, base + 1, INT64_MIN, true, -2.5f, -300, base + 2, (void *)0x1234);
}

double call_all_floats(void) { return all_floats(1, 2, 3, 4, 5, 6, 7, 8, 9, 10); }

int64_t call_all_integers(void) { return all_integers(1, -2, 3, -4, 5, -6, 7, -8, 9); }

uint64_t call_text(const char *text) { return log_text(0.5, text); }

// The text ends with the last byte of a page, and behind it is nothing.
uint64_t call_text_at_end(void) {
  char *pages = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  munmap(pages + 4096, 4096);
  memcpy(pages + 4092, "end", 4);
  uint64_t size = log_text(0.5, pages + 4092);
  munmap(pages, 4096);
  return size;
}

// The text has no end.
uint64_t call_endless(void) {
  size_t bytes = 4 << 20;
  char *pages = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memset(pages, 'x', bytes);
  uint64_t size = log_text(0.5, pages);
  munmap(pages, bytes);
  return size;
}

// The text goes over several pages.
uint64_t call_long(size_t length) {
  static char text[100001];
  memset(text, 'y', length);
  text[length] = 0;
  return log_text(0.5, text);
}

int64_t call_sum(void) {
  static const int16_t values[] = {1, -2, 30000, -4};
  static const double weights[] = {0.5, 0.25};
  return sum(values, 4, "grams", weights, 2) + sum(values, 0, "", NULL, 0);
}

int64_t call_bad_slice(uint64_t address, uint64_t count) { return sum((const int16_t *)address, count, "", NULL, 0); }

// Calls itself through the controller.
int64_t descend(int64_t depth) { return depth == 0 ? 0 : again(depth - 1) + 1; }

static void *steps(void *start) {
  int64_t value = 0;
  for (int turn = 0; turn < 100; turn++) value += step((intptr_t)start + turn);
  return (void *)(intptr_t)value;
}

int64_t call_on_threads(int count) {
  pthread_t threads[16];
  int64_t total = 0;
  for (int at = 0; at < count; at++) pthread_create(&threads[at], 0, steps, (void *)(intptr_t)(at * 1000));
  for (int at = 0; at < count; at++) {
    void *part;
    pthread_join(threads[at], &part);
    total += (intptr_t)part;
  }
  return total;
}

int call_checked(int value) { return checked(value) + 1000; }

void call_nothing(void) { nothing(); }

float call_halved(float value) { return halved(value) + 1; }

void *call_moved(void *address) { return (char *)moved(address) + 1; }

bool call_both(int one, int other) { return both(one & 2, other & 2); }
