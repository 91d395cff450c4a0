// Every system call that takes a process, tried on the process with the number in `data`. The answer is 0 when the kernel lets it
// happen, else the number of the error. Each leaves the process as it is.
#include "attack.h"
#include <linux/kcmp.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <sched.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

#define REACH(name) struct farcall_result reach_##name(const char *data, size_t size)
#define PROCESS (pid_t) number(data, 0)

static struct farcall_result outcome(long returned) { return answer(returned < 0 ? (uint64_t)errno : 0); }

// What it uses.
static long set_limit(pid_t process) {
  struct rlimit limit;
  if (prlimit(process, RLIMIT_CPU, 0, &limit)) return -1;
  return prlimit(process, RLIMIT_CPU, &limit, 0);
}
REACH(prlimit64) { return outcome(set_limit(PROCESS)); }
static long set_priority(pid_t process) {
  errno = 0;
  int nice = getpriority(PRIO_PROCESS, process);
  return errno ? -1 : setpriority(PRIO_PROCESS, process, nice);
}
REACH(setpriority_process) { return outcome(set_priority(PROCESS)); }
REACH(setpriority_group) {
  pid_t group = getpgid(PROCESS);
  errno = 0;
  int nice = getpriority(PRIO_PGRP, group);
  return outcome(errno ? -1 : setpriority(PRIO_PGRP, group, nice));
}
// Of a user that has no process, so that nothing comes of it: the kernel finds none.
REACH(setpriority_user) {
  long done = setpriority(PRIO_USER, 0x7ffffff0, 0);
  return outcome(done < 0 && errno == ESRCH ? 0 : done);
}
static long set_policy(pid_t process) {
  struct sched_param parameters;
  int policy = sched_getscheduler(process);
  if (policy < 0 || sched_getparam(process, &parameters)) return -1;
  return sched_setscheduler(process, policy, &parameters);
}
REACH(sched_setscheduler) { return outcome(set_policy(PROCESS)); }
static long set_parameters(pid_t process) {
  struct sched_param parameters;
  return sched_getparam(process, &parameters) ? -1 : sched_setparam(process, &parameters);
}
REACH(sched_setparam) { return outcome(set_parameters(PROCESS)); }
static long set_attributes(pid_t process) {
  uint64_t attributes[8] = {0};
  if (syscall(SYS_sched_getattr, process, attributes, 48, 0)) return -1;
  return syscall(SYS_sched_setattr, process, attributes, 0);
}
REACH(sched_setattr) { return outcome(set_attributes(PROCESS)); }
static long set_cpus(pid_t process) {
  cpu_set_t cpus;
  if (sched_getaffinity(process, sizeof cpus, &cpus)) return -1;
  return sched_setaffinity(process, sizeof cpus, &cpus);
}
REACH(sched_setaffinity) { return outcome(set_cpus(PROCESS)); }
static long set_io_priority(pid_t process) {
  int priority = syscall(SYS_ioprio_get, 1, process);
  return priority < 0 ? -1 : syscall(SYS_ioprio_set, 1, process, priority);
}
REACH(ioprio_set) { return outcome(set_io_priority(PROCESS)); }
REACH(ioprio_set_group) {
  pid_t group = getpgid(PROCESS);
  int priority = syscall(SYS_ioprio_get, 2, group);
  return outcome(priority < 0 ? -1 : syscall(SYS_ioprio_set, 2, group, priority));
}

// Its CPU time.
static clockid_t clock_of(pid_t process) { return (clockid_t)(~(unsigned)process << 3 | 2); }
static long make_timer(clockid_t clock) {
  struct sigevent nothing = {.sigev_notify = SIGEV_NONE};
  timer_t timer;
  long made = timer_create(clock, &nothing, &timer);
  if (made == 0) timer_delete(timer);
  return made;
}
REACH(timer_create) { return outcome(make_timer(clock_of(PROCESS))); }
static long sleep_by(clockid_t clock) {
  struct timespec past = {0};
  errno = clock_nanosleep(clock, TIMER_ABSTIME, &past, 0);
  return errno ? -1 : 0;
}
REACH(clock_nanosleep) { return outcome(sleep_by(clock_of(PROCESS))); }

// Its memory, and what the kernel keeps of it.
REACH(process_vm_readv) {
  uint64_t word;
  struct iovec from = {0, 8}, to = {&word, 8};
  long done = process_vm_readv(PROCESS, &to, 1, &from, 1, 0);
  return outcome(done < 0 && errno == EFAULT ? 0 : done);
}
REACH(process_vm_writev) {
  uint64_t word = 0;
  struct iovec from = {&word, 8}, to = {0, 8};
  long done = process_vm_writev(PROCESS, &from, 1, &to, 1, 0);
  return outcome(done < 0 && errno == EFAULT ? 0 : done);
}
REACH(move_pages) { return outcome(syscall(SYS_move_pages, PROCESS, 0, 0, 0, 0, 0)); }
REACH(migrate_pages) {
  uint64_t first = 1;
  return outcome(syscall(SYS_migrate_pages, PROCESS, 64, &first, &first));
}
static long with_descriptor(pid_t process, long (*use)(int)) {
  int file = syscall(SYS_pidfd_open, process, 0);
  if (file < 0) return file;
  long done = use(file);
  int error = errno;
  close(file);
  errno = error;
  return done;
}
static long advise(int file) {
  struct iovec range = {0, 0};
  return syscall(SYS_process_madvise, file, &range, 1, 20, 0);
}
REACH(process_madvise) { return outcome(with_descriptor(PROCESS, advise)); }
static long release(int file) { return syscall(SYS_process_mrelease, file, 0); }
REACH(process_mrelease) { return outcome(with_descriptor(PROCESS, release)); }
static long take_descriptor(int file) {
  int taken = syscall(SYS_pidfd_getfd, file, 0, 0);
  if (taken >= 0) close(taken);
  return taken;
}
REACH(pidfd_getfd) { return outcome(with_descriptor(PROCESS, take_descriptor)); }
REACH(kcmp) { return outcome(syscall(SYS_kcmp, getpid(), PROCESS, KCMP_FILES, 0, 0)); }
REACH(get_robust_list) {
  void *head;
  size_t length;
  return outcome(syscall(SYS_get_robust_list, PROCESS, &head, &length));
}
REACH(perf_event_open) {
  struct perf_event_attr wanted = {
      .type = PERF_TYPE_SOFTWARE, .size = sizeof wanted, .config = PERF_COUNT_SW_TASK_CLOCK, .exclude_kernel = 1};
  int file = syscall(SYS_perf_event_open, &wanted, PROCESS, -1, -1, 0);
  if (file >= 0) close(file);
  return outcome(file);
}
// The thread that traces ends at once, and so does the tracing.
struct traced {
  pid_t process;
  int error;
};
static void *trace(void *of) {
  struct traced *traced = of;
  traced->error = ptrace(PTRACE_SEIZE, traced->process, 0, 0) < 0 ? errno : 0;
  return 0;
}
REACH(ptrace) {
  struct traced traced = {PROCESS, 0};
  pthread_t thread;
  int error = pthread_create(&thread, 0, trace, &traced);
  if (error) return answer(error);
  pthread_join(thread, 0);
  return answer(traced.error);
}

// Signals: nothing comes of this one.
REACH(kill) { return outcome(kill(PROCESS, SIGURG)); }
REACH(tkill) { return outcome(syscall(SYS_tkill, PROCESS, SIGURG)); }
REACH(tgkill) { return outcome(syscall(SYS_tgkill, PROCESS, PROCESS, SIGURG)); }
static siginfo_t queued(void) {
  siginfo_t information = {.si_signo = SIGURG, .si_code = SI_QUEUE};
  information.si_pid = getpid();
  information.si_uid = getuid();
  return information;
}
REACH(rt_sigqueueinfo) {
  siginfo_t information = queued();
  return outcome(syscall(SYS_rt_sigqueueinfo, PROCESS, SIGURG, &information));
}
REACH(rt_tgsigqueueinfo) {
  siginfo_t information = queued();
  return outcome(syscall(SYS_rt_tgsigqueueinfo, PROCESS, PROCESS, SIGURG, &information));
}
static long signal_by_descriptor(int file) { return syscall(SYS_pidfd_send_signal, file, SIGURG, 0, 0); }
REACH(pidfd_send_signal) { return outcome(with_descriptor(PROCESS, signal_by_descriptor)); }

// Its place among processes.
REACH(setpgid) { return outcome(setpgid(PROCESS, 0)); }

// What code does to its own process by its number, or by 0: the number of the calls that fail.
static uint64_t failures(pid_t own) {
  long (*calls[])(pid_t) = {set_limit, set_priority, set_policy, set_parameters, set_attributes, set_cpus, set_io_priority};
  uint64_t count = 0;
  for (unsigned at = 0; at < sizeof calls / sizeof *calls; at++) count += calls[at](own) < 0;
  clockid_t clock = own ? clock_of(own) : CLOCK_PROCESS_CPUTIME_ID;
  return count + (make_timer(clock) < 0) + (sleep_by(clock) < 0);
}
REACH(change_self_by_number) { return answer(failures(getpid())); }
REACH(change_self_by_zero) { return answer(failures(0)); }
static void *change_thread(void *result) {
  clockid_t own;
  *(uint64_t *)result = failures(0) + (pthread_getcpuclockid(pthread_self(), &own) || make_timer(own) < 0);
  return 0;
}
// The same in a thread of its own.
REACH(change_thread_by_zero) {
  uint64_t result = 0;
  pthread_t thread;
  if (pthread_create(&thread, 0, change_thread, &result)) return answer(99);
  pthread_join(thread, 0);
  return answer(result);
}
