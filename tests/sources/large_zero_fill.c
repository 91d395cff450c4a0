// More zero fill than memory would be: 1.25 GiB, of which only touched pages take memory, also in a forked child and after it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef BYTES
#define BYTES (5ull << 28)
#endif
static char zeroed[BYTES];
static int small = 1;
char common[1 << 20];

// The memory that the process had at most, in KiB.
static long peak(void) {
  static char text[1 << 14];
  FILE *file = fopen("/proc/self/status", "r");
  size_t size = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[size] = 0;
  return atol(strstr(text, "VmHWM:") + 6);
}

static long sum(void) {
  long sum = 0;
  for (size_t at = 0; at < BYTES; at += BYTES / 64) sum += zeroed[at];
  return sum + zeroed[BYTES - 1] + common[9];
}

int main(void) {
  printf("zero: %ld\n", sum());
  memset(zeroed + BYTES / 2, 1, 4097);
  zeroed[BYTES - 1] = 2;
  common[9] = 3;
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) {
    zeroed[0] += 10;
    small += 5;
    printf("child: %ld, %d, peak %s\n", sum(), small, peak() < 64 << 10 ? "small" : "large");
    fflush(stdout);
    _exit(0);
  }
  int status = -1;
  waitpid(pid, &status, 0);
  printf("parent: %ld, %d, child %#x, peak %s\n", sum(), small, status, peak() < 64 << 10 ? "small" : "large");
  return 0;
}
