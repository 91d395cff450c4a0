// Calls that do not end, and that fight the request to end them. A fight returns only if the system does not let it begin.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern "C" long ask(long question);

static volatile long counter, kept, refusals;

static __attribute__((noipa)) void loop() {
  for (;;) counter = counter + 1;
}

// A compiler that sees the function leaves out what runs for its exceptions.
static void (*volatile endless)() = loop;

static void start(void *(*body)(void *)) {
  pthread_t thread;
  if (pthread_create(&thread, 0, body, 0) == 0) pthread_detach(thread);
}

static void block_all() {
  // By number: the C library keeps two signals back.
  uint64_t all = ~0ull;
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, 0, sizeof all);
}

static void blocks_signals() {
  block_all();
  loop();
}

static void ignores_signals() {
  for (int number = 1; number < 65; number++) signal(number, SIG_IGN);
  for (;;) signal(SIGURG, SIG_IGN);
}

static void on_signal(int) { refusals = refusals + 1; }

static void handles_the_signal() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  for (;;) sigaction(SIGURG, &action, 0);
}

static jmp_buf back;

static void jump(int) { longjmp(back, 1); }

static void jumps_out_of_a_handler() {
  struct sigaction action = {};
  action.sa_handler = jump;
  action.sa_flags = SA_NODEFER;
  setjmp(back);
  for (;;) sigaction(SIGURG, &action, 0);
}

static void never_throws() noexcept { endless(); }

static void (*volatile promise)() = never_throws;

static void spins_in_noexcept() {
  promise();
  counter = counter + 1;
}

struct Jumps {
  ~Jumps() { longjmp(back, 1); }
};

static __attribute__((noipa)) void with_a_jump() {
  Jumps jumps;
  endless();
}

static void jumps_out_of_a_cleanup() {
  setjmp(back);
  with_a_jump();
}

struct Spins {
  ~Spins() { loop(); }
};

static void spins_in_a_cleanup() {
  Spins spins;
  endless();
}

struct Throws {
  ~Throws() noexcept(false) { throw 1; }
};

static void throws_in_a_cleanup() {
  for (;;) {
    try {
      Throws throws;
      endless();
    } catch (...) {
      refusals = refusals + 1;
    }
  }
}

struct Exits {
  ~Exits() { _exit(0); }
};

static void exits_in_a_cleanup() {
  Exits exits;
  endless();
}

// The child answers for its parent, if it can.
static void fork_once(int) {
  static volatile int is_forked;
  if (is_forked) return;
  is_forked = 1;
  if (fork() == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    longjmp(back, 1);
  }
}

static void forks_in_a_handler() {
  struct sigaction action = {};
  action.sa_handler = fork_once;
  if (setjmp(back)) return;
  for (;;) sigaction(SIGURG, &action, 0);
}

// A child answers the call as well, at once or behind its end.
static pid_t fork_a_witness() {
  pid_t child = fork();
  if (child == 0) prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  return child;
}

static void answers_twice() { fork_a_witness(); }

static void answers_behind_the_end() {
  if (fork_a_witness() == 0) {
    block_all();
    usleep(120000);
    return;
  }
  loop();
}

// The thread of this process that has the control socket, and a copy of its socket; -1 if the kernel gives none.
static int control_socket() {
  DIR *tasks = opendir("/proc/self/task");
  for (struct dirent *task; tasks && (task = readdir(tasks));) {
    int number = atoi(task->d_name), table = number ? syscall(SYS_pidfd_open, number, O_EXCL) : -1;
    for (int fd = 0; table >= 0 && fd < 64; fd++) {
      int copy = syscall(SYS_pidfd_getfd, table, fd, 0), type = 0;
      socklen_t size = sizeof type;
      if (copy < 0) continue;
      if (getsockopt(copy, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_SEQPACKET) return copy;
      close(copy);
    }
    if (table >= 0) close(table);
  }
  return -1;
}

static int control;

extern "C" long take_control() { return (control = control_socket()) >= 0; }

// The acceptor's thread sees no request.
static void *steal(void *) {
  char message[4096];
  for (;;)
    if (recv(control, message, sizeof message, 0) < 0) usleep(100);
}

static void steals_the_request() {
  for (int thread = 0; thread < 3; thread++) start(steal);
  loop();
}

// A reason for each number of a lane, in turn: the letter is of `NotInterrupted` in src/wire/control.rs.
static void *lie(void *) {
  char message[1 + 8 + 1024] = {'g'};
  for (uint64_t turn = 0;; turn++) {
    uint64_t number = turn % 16 == 15 ? ~turn : turn % 16;
    memcpy(message + 1, &number, 8);
    memset(message + 9, turn % 3 ? 'x' : 0xff, 1024);
    if (send(control, message, 9 + turn % 1025, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) usleep(10);
  }
}

static void lies_about_the_reason() {
  start(lie);
  blocks_signals();
}

static void *babble(void *) {
  static const char malformed[] = "gggg";
  for (;;) {
    send(control, malformed, sizeof malformed - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    usleep(1000);
  }
}

static void sends_malformed_messages() {
  usleep(25000);
  start(babble);
  loop();
}

static void *ask_for_lanes(void *) {
  for (;;)
    if (send(control, "r", 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) usleep(10);
}

static void floods_the_socket() {
  start(ask_for_lanes);
  start(lie);
  blocks_signals();
}

static void closes_the_socket() {
  shutdown(control, SHUT_RDWR);
  loop();
}

static void blocks_in_vfork() {
  if (vfork() == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    block_all();
    for (;;) syscall(SYS_pause);
  }
  loop();
}

static void stops_itself() {
  for (;;) kill(getpid(), SIGSTOP);
}

// A child traces all threads of this process, and stops them.
static void is_stopped_by_a_tracer() {
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  pid_t own = getpid();
  if (fork() == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", own);
    DIR *tasks = opendir(path);
    for (struct dirent *task; tasks && (task = readdir(tasks));) {
      pid_t thread = atoi(task->d_name);
      if (thread && ptrace(PTRACE_SEIZE, thread, 0, 0) == 0) ptrace(PTRACE_INTERRUPT, thread, 0, 0);
    }
    for (;;) pause();
  }
  loop();
}

static void *rest(void *) {
  for (;;) pause();
}

static void uses_up_threads() {
  struct rlimit limit = {64, 64};
  setrlimit(RLIMIT_NPROC, &limit);
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 64 << 10);
  pthread_t thread;
  for (int count = 0; count < 100 && pthread_create(&thread, &small, rest, 0) == 0; count++) continue;
  blocks_signals();
}

static void calls_back_without_end() {
  for (;;) counter = ask(counter);
}

// The signal comes all the time, from elsewhere.
static pid_t hit;

static void *send_signals(void *) {
  for (;;) syscall(SYS_tgkill, getpid(), hit, SIGURG);
}

static void floods_its_thread_with_signals() {
  hit = syscall(SYS_gettid);
  start(send_signals);
  loop();
}

// Random words over all that is shared with the host over lanes.
static void *scribble(void *) {
  FILE *maps = fopen("/proc/self/maps", "re");
  unsigned long from, to, found[16][2];
  int count = 0;
  char line[512], rights[8];
  while (maps && fgets(line, sizeof line, maps) && count < 16)
    if (strstr(line, "/memfd:farcall-lane") && sscanf(line, "%lx-%lx %7s", &from, &to, rights) == 3 && rights[1] == 'w')
      found[count][0] = from, found[count++][1] = to;
  usleep(20000);
  for (unsigned seed = 1;;) {
    for (int at = 0; at < count; at++)
      for (int turn = 0; turn < 1000; turn++) {
        unsigned word = rand_r(&seed) % 64;
        ((volatile uint64_t *)found[at][0])[word] = seed % 3 ? rand_r(&seed) : 0;
      }
    usleep(50);
  }
}

static void scribbles_over_its_lanes() {
  start(scribble);
  blocks_signals();
}

// A stack for handlers with room for the kernel's part alone, between bytes that nobody else writes.
enum { GUARD = 32 << 10 };
static unsigned char small_stack[GUARD + (16 << 10) + GUARD];

static void has_a_small_stack_for_handlers() {
  size_t size = sysconf(_SC_MINSIGSTKSZ) + 256;
  memset(small_stack, 0xa5, sizeof small_stack);
  stack_t wanted = {};
  wanted.ss_sp = small_stack + GUARD;
  wanted.ss_size = size;
  sigaltstack(&wanted, 0);
  loop();
}

// How many bytes in front of that stack were written.
extern "C" long overflow() {
  long count = 0;
  for (int at = 0; small_stack[GUARD + 1] && at < GUARD; at++) count += small_stack[at] != 0xa5;
  return count;
}

static void (*const fights[])() = {
    blocks_signals,
    ignores_signals,
    handles_the_signal,
    jumps_out_of_a_handler,
    spins_in_noexcept,
    jumps_out_of_a_cleanup,
    spins_in_a_cleanup,
    throws_in_a_cleanup,
    exits_in_a_cleanup,
    forks_in_a_handler,
    answers_twice,
    answers_behind_the_end,
    steals_the_request,
    lies_about_the_reason,
    sends_malformed_messages,
    floods_the_socket,
    closes_the_socket,
    blocks_in_vfork,
    stops_itself,
    is_stopped_by_a_tracer,
    uses_up_threads,
    calls_back_without_end,
    floods_its_thread_with_signals,
    scribbles_over_its_lanes,
    has_a_small_stack_for_handlers,
};

struct Cleanup {
  ~Cleanup() { kept = kept + 1; }
};

extern "C" __attribute__((noipa)) long fight(long which) {
  Cleanup cleanup;
  fights[which]();
  return counter;
}

extern "C" long count() { return kept; }
