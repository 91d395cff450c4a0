// Zero fill that nothing touches, and what memory the process and its parent had at most.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char zeroes[400 << 20];
char page[4096];

char *first(void) { return zeroes; }

static long peak(const char *process) {
  char path[64], text[1 << 13];
  snprintf(path, sizeof path, "/proc/%s/status", process);
  FILE *file = fopen(path, "r");
  if (!file) return 1 << 30;
  text[fread(text, 1, sizeof text - 1, file)] = 0;
  fclose(file);
  return atol(strstr(text, "VmHWM:") + 6);
}

int main(void) {
  char parent[32];
  snprintf(parent, sizeof parent, "%d", getppid());
  long own = peak("self"), controller = peak(parent);
  printf("%ld KiB here, %ld KiB in the parent\n", own, controller);
  return own < 64 << 10 && controller < 64 << 10 ? 0 : 1;
}
