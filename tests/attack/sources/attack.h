// What attacks have in common: the form of wrapper functions, and how to find what is shared with the controller.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../../../src/executor/include/farcall/linked.h"

static inline uint64_t number(const char *data, int index) {
  uint64_t value;
  memcpy(&value, data + 8 * index, 8);
  return value;
}

static inline struct farcall_result answer(uint64_t value) {
  struct farcall_result result = {.size = 8};
  memcpy(result.bytes, &value, 8);
  return result;
}

static inline uint64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000ull + now.tv_nsec / 1000000;
}

static inline void sleep_ms(unsigned ms) { usleep(ms * 1000); }

// A writable mapping of a memory file.
struct mapping {
  volatile uint64_t *words;
  size_t bytes;
};

// Finds the writable shared mappings of memory files whose names begin so; returns how many there are.
static inline int find_mappings(const char *name, struct mapping *found, int most) {
  static char text[1 << 20];
  int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC), count = 0;
  size_t size = 0;
  ssize_t part;
  while ((part = read(file, text + size, sizeof text - 1 - size)) > 0) size += part;
  close(file);
  text[size] = 0;
  char wanted[64];
  snprintf(wanted, sizeof wanted, "/memfd:%s", name);
  for (char *line = text; line && *line && count < most;) {
    char *end = strchr(line, '\n');
    if (end) *end = 0;
    unsigned long from, to;
    char rights[5];
    if (sscanf(line, "%lx-%lx %4s", &from, &to, rights) == 3 && rights[1] == 'w' &&
        rights[3] == 's' && strstr(line, wanted)) {
      found[count].words = (volatile uint64_t *)from;
      found[count++].bytes = to - from;
    }
    line = end ? end + 1 : 0;
  }
  return count;
}

// Finds the descriptors that are sockets; returns how many there are.
static inline int find_sockets(int *found, int most) {
  int count = 0;
  for (int fd = 0; fd < 1024 && count < most; fd++) {
    struct stat status;
    if (fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode)) found[count++] = fd;
  }
  return count;
}

// Where things stand in the segments, as src/wire/layout.rs and src/wire/pipeline.rs say.
enum {
  LANE_PARKER_CONTROLLER = 58,
  LANE_PARKER_EXECUTOR = 59,
  LANE_CLOSED = 60,
  PIPELINE_PARKER_EXECUTOR = 16,
  PIPELINE_PARKER_CONTROLLER = 32,
};

enum { MAPPINGS = 64, SOCKETS = 64 };
