// Wrapper functions for pipelines. Their arguments begin with a number.
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct buffer {
  union {
    char *pointer;
    char bytes[8];
  };
  size_t size;
};

static uint64_t number(const char *data) {
  uint64_t value;
  memcpy(&value, data, 8);
  return value;
}

static struct buffer answer(uint64_t value) {
  struct buffer result = {.size = 8};
  memcpy(result.bytes, &value, 8);
  return result;
}

static uint64_t calls;

// Doubles the number.
struct buffer twice(const char *data, size_t size) {
  calls++;
  return answer(number(data) * 2);
}

// How often `twice` was called.
struct buffer count(const char *data, size_t size) { return answer(calls); }

// As many bytes as the number says, each of the last of its arguments.
struct buffer fill(const char *data, size_t size) {
  struct buffer result = {.size = number(data)};
  result.pointer = malloc(result.size);
  memset(result.pointer, data[size - 1], result.size);
  return result;
}

// Refuses, with the number of bytes it was called with.
struct buffer refuse(const char *data, size_t size) {
  char text[] = "refused .";
  text[8] = '0' + size;
  struct buffer result = {.size = 0};
  result.pointer = strdup(text);
  return result;
}

// Sleeps so many milliseconds, and cannot be interrupted.
struct buffer rest_deaf(const char *data, size_t size) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  usleep(number(data) * 1000);
  pthread_sigmask(SIG_SETMASK, &before, 0);
  return answer(number(data));
}

// Sleeps so many milliseconds.
struct buffer rest(const char *data, size_t size) {
  usleep(number(data) * 1000);
  return answer(number(data));
}

struct buffer die(const char *data, size_t size) { abort(); }
