// Executors whose ends belong to a process that traces them.
#include "attack.h"
#include <sys/prctl.h>
#include <sys/ptrace.h>

// Traces the first thread of a process, or all of them.
static int trace(pid_t pid, int all) {
  if (!all) return ptrace(PTRACE_SEIZE, pid, 0, 0) == 0;
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/task", pid);
  DIR *tasks = opendir(path);
  int traced = 0;
  for (struct dirent *task; tasks && (task = readdir(tasks));)
    if (atoi(task->d_name)) traced += ptrace(PTRACE_SEIZE, atoi(task->d_name), 0, 0) == 0;
  return traced > 1;
}

// Lets a child trace this process, all threads of it if the number is not 0. Returns the child's number; 0 if it may not trace.
struct farcall_result be_traced(const char *data, size_t size) {
  int ready[2];
  char is_traced = 0;
  if (pipe(ready)) return answer(0);
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  pid_t own = getpid(), child = fork();
  if (child == 0) {
    is_traced = trace(own, number(data, 0));
    if (write(ready[1], &is_traced, 1) != 1 || !is_traced) _exit(1);
    for (;;) pause();
  }
  close(ready[1]);
  if (read(ready[0], &is_traced, 1) != 1) is_traced = 0;
  close(ready[0]);
  return answer(is_traced ? child : 0);
}

struct farcall_result leave(const char *data, size_t size) { _exit(3); }
