// Functions that fork, and return in the child as well.
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct buffer { char *data; size_t size; };
extern struct buffer farcall_call_controller(uint64_t tag, const char *data, size_t size);

static long calls;

// The status of the child that has returned; 1000 and the signal if it was killed.
static long status_of(pid_t child) {
  int status = -1;
  if (waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

long fork_and_return(long number) {
  calls++;
  pid_t child = fork();
  if (child == 0) return -77;
  return 100 * status_of(child) + number;
}

// The child's output is in the C library's buffer when it returns.
long fork_and_print(long descriptor) {
  int ends[2];
  if (pipe(ends)) return -2;
  pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], 1);
    printf("from the child");
    return descriptor;
  }
  close(ends[1]);
  long status = status_of(child);
  char text[64] = "";
  ssize_t bytes = read(ends[0], text, sizeof text - 1);
  close(ends[0]);
  return status == 0 && bytes == 14 && !strcmp(text, "from the child");
}

// The child's call fails, and its function with it.
long fork_and_call_back(uint64_t tag) {
  pid_t child = fork();
  struct buffer answer = farcall_call_controller(tag, (const char *)&tag, 8);
  if (child == 0) return answer.size == 0 && answer.data ? 0 : 5;
  return 100 * status_of(child) + (long)answer.size;
}

struct buffer wrapper(const char *data, size_t size) {
  struct buffer result = {NULL, 8};
  long number = 0;
  memcpy(&number, data, size < 8 ? size : 8);
  number = fork_and_return(number);
  memcpy(&result.data, &number, 8);
  return result;
}

// Calls a handler of the host's, which calls `fork_and_return` in turn.
long through_the_host(uint64_t tag) {
  struct buffer answer = farcall_call_controller(tag, (const char *)&tag, 8);
  long number = -1;
  if (answer.size == 8) memcpy(&number, &answer.data, 8);
  return number;
}

__attribute__((constructor)) static void construct(void) {
  if (fork() == 0) return;
  wait(NULL);
}

long count(void) { return calls; }
