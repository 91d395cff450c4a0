// Deeds of linked code that means harm, chosen by its caller, each with numbers of its own that follow from a seed. The arguments are
// the seed, and the numbers of up to eight deeds, which are done one after the other. The list is in tests/attack/random.rs too.
#include "attack.h"
#include <pthread.h>

static _Thread_local uint64_t state;

static uint64_t any(void) {
  uint64_t z = state += 0x9e3779b97f4a7c15;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

static uint64_t below(uint64_t end) { return any() % end; }

static struct mapping found[MAPPINGS];

// Any mapping that is shared: a lane's, a pipeline's, the data of a slab.
static struct mapping mapping(void) {
  int count = find_mappings("farcall", found, MAPPINGS);
  return count ? found[below(count)] : (struct mapping){0, 0};
}

// A word near the front, where the words are that matter, or anywhere in the first 128 KiB.
static uint64_t word_of(struct mapping map) {
  uint64_t words = map.bytes / 8, near = below(4) ? 512 : 16384;
  return below(near < words ? near : words);
}

static uint64_t value(volatile uint64_t *word) {
  switch (below(6)) {
  case 0: return 0;
  case 1: return 1;
  case 2: return *word + 1;
  case 3: return *word ^ 1ull << below(64);
  case 4: return -1ull;
  default: return any();
  }
}

static void scribble(uint64_t stores) {
  struct mapping map = mapping();
  for (; map.bytes && stores; stores--) {
    volatile uint64_t *word = map.words + word_of(map);
    *word = value(word);
  }
}

static void zero(void) {
  struct mapping map = mapping();
  if (!map.bytes) return;
  uint64_t from = word_of(map), words = 1 + below(256);
  for (uint64_t at = from; at < from + words && at < map.bytes / 8; at++) map.words[at] = 0;
}

// Stores what stood there some time ago.
static void replay(void) {
  static uint64_t old[2048];
  struct mapping map = mapping();
  uint64_t words = map.bytes / 8 < 2048 ? map.bytes / 8 : 2048;
  for (uint64_t at = 0; at < words; at++) old[at] = map.words[at];
  usleep(below(2000));
  uint64_t from = words ? below(words) : 0, to = from + below(300);
  for (uint64_t at = from; at < to && at < words; at++) map.words[at] = old[at];
}

static void jam(void) {
  int sockets[SOCKETS], count = find_sockets(sockets, SOCKETS);
  for (int turn = 0; count && turn < 300; turn++) {
    char letters[] = {"rlnps"[below(5)], (char)any()};
    send(sockets[below(count)], letters, below(3), MSG_DONTWAIT | MSG_NOSIGNAL);
  }
}

static void send_files(void) {
  int sockets[SOCKETS], count = find_sockets(sockets, SOCKETS);
  for (int turn = 0; count && turn < 20; turn++) {
    union {
      char bytes[CMSG_SPACE(sizeof(int) * 64)];
      struct cmsghdr header;
    } control;
    char letter = "rlnps"[below(5)];
    int files = 1 + below(60);
    struct iovec data = {.iov_base = &letter, .iov_len = 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = &control};
    message.msg_controllen = CMSG_SPACE(sizeof(int) * files);
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * files);
    for (int at = 0; at < files; at++) ((int *)CMSG_DATA(header))[at] = 2;
    sendmsg(sockets[below(count)], &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  }
}

static void leave_child(void) {
  uint64_t time_ms = 5 + below(60), seed = any();
  if (fork() != 0) return;
  state = seed;
  alarm(2);
  for (uint64_t end = now_ms() + time_ms; now_ms() < end;) scribble(1 + below(16));
  _exit(0);
}

static void close_some(void) {
  for (int fd = 3; fd < 64; fd++)
    if (below(2)) close(fd);
}

static void unmap(void) {
  struct mapping map = mapping();
  if (map.bytes) munmap((void *)map.words, below(2) ? map.bytes : 4096);
}

static void leave(void) {
  switch (below(4)) {
  case 0: exit(below(256));
  case 1: _exit(below(256));
  case 2: syscall(SYS_exit, 0);
  default: abort();
  }
}

static void raise_any(void) {
  static const int signals[] = {SIGSEGV, SIGKILL, SIGTERM, SIGFPE, SIGILL, SIGBUS, SIGPIPE, SIGALRM, SIGUSR1};
  int number = signals[below(9)];
  if (below(2)) raise(number);
  else kill(getpid(), number);
}

static void use_up_memory(void) {
  struct rlimit limit = {.rlim_cur = 64 << 20, .rlim_max = RLIM_INFINITY};
  setrlimit(below(2) ? RLIMIT_DATA : RLIMIT_AS, &limit);
  size_t bytes = 1 << 20;
  for (int turn = 0; turn < 256; turn++) {
    char *memory = malloc(bytes);
    if (!memory && bytes < 64) break;
    if (!memory) bytes /= 4;
    else memory[0] = 1;
  }
}

static void *short_thread(void *seed) {
  state = (uint64_t)seed;
  usleep(below(5000));
  if (below(2)) scribble(8);
  return 0;
}

static void start_threads(void) {
  for (int turn = 0; turn < 16; turn++) {
    pthread_t thread;
    if (pthread_create(&thread, 0, short_thread, (void *)any()) == 0) pthread_detach(thread);
  }
}

static void use_up_descriptors(void) {
  struct rlimit limit = {.rlim_cur = 128, .rlim_max = 128};
  setrlimit(RLIMIT_NOFILE, &limit);
  for (int turn = 0; turn < 256; turn++) dup(2);
}

static void spin(void) {
  for (uint64_t end = now_ms() + 1 + below(30); now_ms() < end;) continue;
}

static int overflow(int depth) {
  volatile char frame[4096];
  frame[depth % 4096] = 1;
  return overflow(depth + 1) + frame[(depth + 7) % 4096];
}

static void do_deed(uint64_t deed) {
  switch (deed) {
  case 0: return scribble(1 + below(4));
  case 1: return scribble(1 + below(500));
  case 2: return zero();
  case 3: return replay();
  case 4: usleep(below(3000)); return scribble(1 + below(8));
  case 5: return jam();
  case 6: return send_files();
  case 7: kill(getpid(), SIGSTOP); return;
  case 8: return leave_child();
  case 9: return close_some();
  case 10: return unmap();
  case 11: return leave();
  case 12: return raise_any();
  case 13: return use_up_memory();
  case 14: return start_threads();
  case 15: return use_up_descriptors();
  case 16: return spin();
  case 17: overflow(0); return;
  default: usleep(below(2000));
  }
}

struct farcall_result attack(const char *data, size_t size) {
  state = number(data, 0);
  uint64_t deeds = size / 8 - 1;
  for (uint64_t at = 0; at < deeds && at < 8; at++) do_deed(number(data, 1 + at));
  // Now and then a result that is none.
  struct farcall_result result = answer(7);
  if (below(20) == 0) {
    result.size = below(2) ? any() : 8 + below(100);
    result.pointer = below(2) ? malloc(16) : 0;
  }
  return result;
}
