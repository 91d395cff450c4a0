// Linked code that leaves its own process nothing: no descriptor, no thread.
#include "attack.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

struct farcall_result add(const char *data, size_t size) { return answer(number(data, 0) + number(data, 1)); }

// No descriptor can be opened any more.
struct farcall_result use_up_descriptors(const char *data, size_t size) {
  int highest = 0;
  for (int fd = 0; fd < 1024; fd++)
    if (fcntl(fd, F_GETFD) >= 0) highest = fd;
  struct rlimit limit = {.rlim_cur = highest + 1, .rlim_max = highest + 1};
  if (setrlimit(RLIMIT_NOFILE, &limit)) return answer(1);
  while (dup(2) >= 0) continue;
  return answer(0);
}

// No thread can be started any more, in any thread of the process.
struct farcall_result use_up_threads(const char *data, size_t size) {
  struct sock_filter filter[] = {
      {BPF_LD | BPF_W | BPF_ABS, 0, 0, 0},
      {BPF_JMP | BPF_JEQ | BPF_K, 1, 0, SYS_clone},
      {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_clone3},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | EAGAIN},
      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
  };
  struct sock_fprog program = {.len = 5, .filter = filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return answer(1);
  return answer(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program));
}
