// Wrapper functions that call the controller, block, and let go. Their arguments begin with two numbers.
#include <farcall/linked.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static uint64_t number(const char *data, int index) {
  uint64_t value;
  memcpy(&value, data + 8 * index, 8);
  return value;
}

static struct farcall_result answer(uint64_t value) { return farcall_result_of(&value, sizeof value); }

// Calls the tag in the first number with all that follows, and returns what it returns.
struct farcall_result back(const char *data, size_t size) {
  return farcall_call_controller(number(data, 0), data + 8, size - 8);
}

static void *on_thread(void *data) {
  uint64_t sum = 0;
  for (uint64_t turn = 0; turn < 100; turn++) {
    struct farcall_result result = farcall_call_controller(number(data, 0), (char *)&turn, 8);
    if (result.size != 8) return (void *)-1;
    sum += number(result.bytes, 0);
  }
  return (void *)sum;
}

// Starts as many threads as the second number says, each of which calls the tag a hundred times with numbers; returns the sum of
// what they got.
struct farcall_result on_threads(const char *data, size_t size) {
  pthread_t threads[64];
  uint64_t count = number(data, 1), sum = 0;
  for (uint64_t at = 0; at < count; at++) pthread_create(&threads[at], 0, on_thread, (void *)data);
  for (uint64_t at = 0; at < count; at++) {
    void *part;
    pthread_join(threads[at], &part);
    sum += (uint64_t)part;
  }
  return answer(sum);
}

// Calls the tag with a number, as a child does that it has forked before. The child has to get an error, a text out of band.
struct farcall_result forked(const char *data, size_t size) {
  (void)size;
  pid_t child = fork();
  if (child == 0) {
    struct farcall_result result = farcall_call_controller(number(data, 0), data + 8, 8);
    _exit(result.size == 0 && result.pointer && strstr(result.pointer, "forked") ? 7 : 8);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 7) return answer(0);
  return farcall_call_controller(number(data, 0), data + 8, 8);
}

static int is_open;

// Returns once another call has opened the gate.
struct farcall_result wait_at_gate(const char *data, size_t size) {
  while (!__atomic_load_n(&is_open, __ATOMIC_ACQUIRE)) usleep(200);
  return answer(number(data, 0));
}

struct farcall_result set_gate(const char *data, size_t size) {
  __atomic_store_n(&is_open, (int)number(data, 0), __ATOMIC_RELEASE);
  return answer(0);
}

// Calls the controller once another call has opened the gate.
struct farcall_result back_after_gate(const char *data, size_t size) {
  wait_at_gate(data, size);
  return back(data, size);
}

struct farcall_result die(const char *data, size_t size) { abort(); }

struct farcall_result add(const char *data, size_t size) { return answer(number(data, 0) + number(data, 1)); }

// Closes every file but the standard streams, as programs do that become daemons.
struct farcall_result close_files(const char *data, size_t size) {
  for (int file = 3; file < 1024; file++) close(file);
  return answer(number(data, 0));
}
