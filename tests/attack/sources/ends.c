// Ways in which a call does not return as it should.
#include "attack.h"
#include <dlfcn.h>
#include <pthread.h>

struct farcall_result add(const char *data, size_t size) { return answer(number(data, 0) + number(data, 1)); }

struct farcall_result back(const char *data, size_t size) {
  return farcall_call_controller(number(data, 0), data + 8, size - 8);
}

struct farcall_result crash(const char *data, size_t size) {
  *(volatile int *)8 = 1;
  return answer(0);
}

// Returns after as many milliseconds as the number says.
struct farcall_result rest(const char *data, size_t size) {
  sleep_ms(number(data, 0));
  return answer(0);
}

// Opens the library whose path these bytes are.
struct farcall_result open_library(const char *data, size_t size) {
  char path[4096] = "";
  memcpy(path, data, size < sizeof path - 1 ? size : sizeof path - 1);
  return answer(dlopen(path, RTLD_NOW) != 0);
}

// Ends its thread, and nothing else.
struct farcall_result leave_thread(const char *data, size_t size) {
  syscall(SYS_exit, 0);
  return answer(0);
}

// Says that the result has as many bytes as the number says; nothing is stored in them.
struct farcall_result long_result(const char *data, size_t size) {
  struct farcall_result result = {.size = number(data, 0)};
  result.pointer = malloc(result.size);
  return result;
}

// Takes as many MiB as the number says, and keeps them.
struct farcall_result touch(const char *data, size_t size) {
  size_t bytes = number(data, 0) << 20;
  if (!bytes) return answer(0);
  char *memory = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return answer(1);
  for (size_t at = 0; at < bytes; at += 4096) memory[at] = 1;
  return answer(0);
}

// Sends a signal to a thread of the controller's: process, thread, signal. Returns some time later.
struct farcall_result signal_caller(const char *data, size_t size) {
  sleep_ms(20);
  long sent = syscall(SYS_tgkill, number(data, 0), number(data, 1), number(data, 2));
  sleep_ms(100);
  return answer(sent == 0);
}

// How many links of /proc/self/fd have these bytes in them.
struct farcall_result count_files(const char *data, size_t size) {
  uint64_t count = 0;
  for (int fd = 0; fd < 1024; fd++) {
    char path[64], link[4096];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(path, link, sizeof link - 1);
    if (length > 0) count += memmem(link, length, data, size) != 0;
  }
  return answer(count);
}
