// The file that the program is started as.
#include <stdio.h>
#include <unistd.h>

int main(void) {
  char path[4096];
  ssize_t size = readlink("/proc/self/exe", path, sizeof path - 1);
  if (size < 0) return 1;
  path[size] = 0;
  puts(path);
  return 0;
}
