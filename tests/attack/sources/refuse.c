// A library that is loaded before a program's own: from then on the system calls in ATTACK_REFUSE fail. Its form is the
// number of the error, then those of the calls, all with a blank between them.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <sys/prctl.h>

__attribute__((constructor)) static void refuse(void) {
  static struct sock_filter filter[64];
  char *text = getenv("ATTACK_REFUSE");
  if (!text) return;
  unsetenv("LD_PRELOAD");
  unsigned error = strtoul(text, &text, 10), calls[20], count = 0, at = 0;
  while (*text && count < 20) calls[count++] = strtoul(text, &text, 10);
  filter[at++] = (struct sock_filter){BPF_LD | BPF_W | BPF_ABS, 0, 0, 0};
  for (unsigned call = 0; call < count; call++)
    filter[at++] = (struct sock_filter){BPF_JMP | BPF_JEQ | BPF_K, count - call, 0, calls[call]};
  filter[at++] = (struct sock_filter){BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW};
  filter[at++] = (struct sock_filter){BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | error};
  struct sock_fprog program = {.len = at, .filter = filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
    abort();
}
