// Linked code that reaches for what is outside of its process, and that uses up what it has. The answer of an attack is 0 when
// it succeeds, else the number of the error.
#include "attack.h"
#include <arpa/inet.h>
#include <linux/memfd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <sys/ipc.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/shm.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>

#define ATTACK(name) struct farcall_result name(const char *data, size_t size)

static struct farcall_result outcome(long returned) { return answer(returned < 0 ? (uint64_t)errno : 0); }

// The folder of the test, and paths in it.
static char folder[256];
ATTACK(set_folder) {
  memcpy(folder, data, size < sizeof folder - 1 ? size : sizeof folder - 1);
  return answer(0);
}
static const char *in_folder(const char *name) {
  static char path[300];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

// The controller's memory: the address of a number.
ATTACK(write_memory) {
  uint64_t evil = 666;
  struct iovec from = {&evil, 8}, to = {(void *)number(data, 0), 8};
  return outcome(process_vm_writev(getppid(), &from, 1, &to, 1, 0));
}
ATTACK(read_memory) {
  uint64_t value;
  struct iovec from = {(void *)number(data, 0), 8}, to = {&value, 8};
  return outcome(process_vm_readv(getppid(), &to, 1, &from, 1, 0));
}
ATTACK(write_memory_file) {
  char path[64];
  uint64_t evil = 667;
  snprintf(path, sizeof path, "/proc/%d/mem", getppid());
  int file = open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return outcome(file);
  long written = pwrite(file, &evil, 8, number(data, 0));
  int error = errno;
  close(file);
  errno = error;
  return outcome(written);
}
// The thread that traces ends at once, and so does the tracing.
static void *trace(void *result) {
  *(int *)result = ptrace(PTRACE_SEIZE, getppid(), 0, 0) < 0 ? errno : 0;
  return 0;
}

ATTACK(trace_controller) {
  pthread_t thread;
  int result = 0, error = pthread_create(&thread, 0, trace, &result);
  if (error) return answer(error);
  pthread_join(thread, 0);
  return answer(result);
}
// By default nothing comes of this signal.
ATTACK(signal_controller) { return outcome(kill(getppid(), SIGURG)); }
ATTACK(take_controllers_descriptor) {
  int process = syscall(SYS_pidfd_open, getppid(), 0);
  if (process < 0) return outcome(process);
  int taken = syscall(SYS_pidfd_getfd, process, 0, 0), error = errno;
  close(process);
  if (taken >= 0) close(taken);
  errno = error;
  return outcome(taken);
}

static long over(int kind, const struct sockaddr *address, socklen_t size, int binds) {
  int made = socket(address->sa_family, kind | SOCK_CLOEXEC, 0);
  if (made < 0) return made;
  long done = binds ? bind(made, address, size) : connect(made, address, size);
  if (done == 0 && kind == SOCK_DGRAM) done = send(made, "x", 1, 0);
  int error = errno;
  close(made);
  errno = error;
  return done;
}
static struct sockaddr_in local(uint64_t port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}
ATTACK(connect_tcp) {
  struct sockaddr_in address = local(number(data, 0));
  return outcome(over(SOCK_STREAM, (struct sockaddr *)&address, sizeof address, 0));
}
ATTACK(bind_tcp) {
  struct sockaddr_in address = local(0);
  return outcome(over(SOCK_STREAM, (struct sockaddr *)&address, sizeof address, 1));
}
// Answers for the first of these that works.
static long each(long (*tried)(int), int count) {
  long done = -1;
  for (int way = 0; way < count && done < 0; way++) done = tried(way);
  return done;
}
static uint64_t tcp_port;
static int made(int domain, int type, int protocol) { return socket(domain, type | SOCK_CLOEXEC, protocol); }
static long closed(int fd, long done) {
  int error = errno;
  if (fd >= 0) close(fd);
  errno = error;
  return done;
}
enum { MPTCP = 262 };
ATTACK(connect_mptcp) {
  struct sockaddr_in address = local(number(data, 0));
  int fd = made(AF_INET, SOCK_STREAM, MPTCP);
  return outcome(closed(fd, fd < 0 ? fd : connect(fd, (struct sockaddr *)&address, sizeof address)));
}
ATTACK(bind_mptcp) {
  struct sockaddr_in address = local(0);
  int fd = made(AF_INET, SOCK_STREAM, MPTCP);
  return outcome(closed(fd, fd < 0 ? fd : bind(fd, (struct sockaddr *)&address, sizeof address)));
}
// A connection that begins with its first bytes, by each call that sends.
static long send_fast(int way) {
  struct sockaddr_in address = local(tcp_port);
  struct iovec data = {"x", 1};
  struct mmsghdr message = {{&address, sizeof address, &data, 1}};
  int fd = made(AF_INET, SOCK_STREAM, 0);
  if (fd < 0) return fd;
  if (way == 0) return closed(fd, sendto(fd, "x", 1, MSG_FASTOPEN, (struct sockaddr *)&address, sizeof address));
  if (way == 1) return closed(fd, sendmsg(fd, &message.msg_hdr, MSG_FASTOPEN));
  return closed(fd, sendmmsg(fd, &message, 1, MSG_FASTOPEN));
}
ATTACK(connect_fast) {
  tcp_port = number(data, 0);
  return outcome(each(send_fast, 3));
}
// The flag alone, on a socket that is no socket of TCP: counts the calls that are refused for it.
ATTACK(flag_fast) {
  int fd = made(AF_UNIX, SOCK_DGRAM, 0);
  struct iovec sent = {"x", 1};
  struct mmsghdr message = {{.msg_iov = &sent, .msg_iovlen = 1}};
  int refused = (sendto(fd, "x", 1, MSG_FASTOPEN, 0, 0) < 0 && errno == EPERM) +
                (sendmsg(fd, &message.msg_hdr, MSG_FASTOPEN) < 0 && errno == EPERM) +
                (sendmmsg(fd, &message, 1, MSG_FASTOPEN) < 0 && errno == EPERM);
  close(fd);
  return answer(refused);
}
ATTACK(listen_unbound) {
  int fd = made(AF_INET6, SOCK_STREAM, 0);
  if (fd < 0) fd = made(AF_INET, SOCK_STREAM, 0);
  return outcome(closed(fd, fd < 0 ? fd : listen(fd, 1)));
}
ATTACK(socket_vsock) {
  int fd = made(AF_VSOCK, SOCK_STREAM, 0);
  return outcome(closed(fd, fd));
}
ATTACK(socket_netlink) {
  int fd = made(AF_NETLINK, SOCK_RAW, 0);
  return outcome(closed(fd, fd));
}
ATTACK(socket_packet) {
  int fd = made(AF_PACKET, SOCK_RAW, 0);
  return outcome(closed(fd, fd));
}
// Every other kind of socket that there is: answers with how many could be made.
ATTACK(other_sockets) {
  uint64_t count = 0;
  int protocols[] = {0, 1, 2, 33, 58, 132, 136, 255, 256, 262};
  for (int domain = 0; domain < 64; domain++)
    for (int type = 0; type < 16; type++)
      for (unsigned at = 0; at < sizeof protocols / sizeof *protocols; at++) {
        int is_udp = type == SOCK_DGRAM && protocols[at] == 0;
        if (domain == AF_UNIX || ((domain == AF_INET || domain == AF_INET6) && is_udp)) continue;
        int fd = made(domain, type, protocols[at]), pair[2];
        if (fd >= 0) close(fd), count++;
        if (socketpair(domain, type, protocols[at], pair) == 0) close(pair[0]), close(pair[1]), count++;
      }
  return answer(count);
}
ATTACK(setup_uring) {
  char parameters[256] = {0};
  int fd = syscall(SYS_io_uring_setup, 1, parameters);
  return outcome(closed(fd, fd));
}
ATTACK(send_udp) {
  struct sockaddr_in address = local(number(data, 0));
  return outcome(over(SOCK_DGRAM, (struct sockaddr *)&address, sizeof address, 0));
}
ATTACK(connect_abstract) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  int length = snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "farcall-attack-%d", getppid());
  return outcome(over(SOCK_STREAM, (struct sockaddr *)&address, offsetof(struct sockaddr_un, sun_path) + 1 + length, 0));
}
ATTACK(connect_path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  strncpy(address.sun_path, in_folder("socket"), sizeof address.sun_path - 1);
  return outcome(over(SOCK_STREAM, (struct sockaddr *)&address, sizeof address, 0));
}

static long opened(const char *path, int flags) {
  int file = open(path, flags | O_CLOEXEC, 0600);
  if (file >= 0) close(file);
  return file;
}
ATTACK(create_file) { return outcome(opened(in_folder("made"), O_WRONLY | O_CREAT)); }
ATTACK(overwrite_file) { return outcome(opened(in_folder("kept"), O_RDWR)); }
ATTACK(truncate_file) { return outcome(truncate(in_folder("kept"), 4)); }
ATTACK(remove_file) { return outcome(unlink(in_folder("removed"))); }
ATTACK(rename_file) {
  char from[300];
  strcpy(from, in_folder("moved"));
  return outcome(rename(from, in_folder("moved-away")));
}
ATTACK(make_folder) { return outcome(mkdir(in_folder("folder"), 0700)); }
ATTACK(change_mode) { return outcome(chmod(in_folder("kept"), 0640)); }
ATTACK(read_file) { return outcome(opened(in_folder("kept"), O_RDONLY)); }

// Waits for a child that has nothing else to do than `_exit(0)`.
ATTACK(run_program) {
  pid_t child = vfork();
  if (child < 0) return outcome(child);
  if (child == 0) {
    execl("/bin/true", "true", (char *)0);
    _exit(1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return answer(status ? EACCES : 0);
}
// Answers with the number of a process that has left session and parent.
ATTACK(daemonize) {
  int ends[2];
  if (pipe(ends)) return answer(0);
  pid_t child = fork();
  if (child < 0) return answer(0);
  if (child == 0) {
    setsid();
    pid_t daemon = fork();
    if (daemon == 0) {
      for (int fd = 0; fd < 64; fd++) close(fd);
      signal(SIGTERM, SIG_IGN);
      for (;;) pause();
    }
    if (write(ends[1], &daemon, sizeof daemon) < 0) _exit(1);
    _exit(0);
  }
  waitpid(child, 0, 0);
  pid_t daemon = 0;
  if (read(ends[0], &daemon, sizeof daemon) < 0) daemon = 0;
  close(ends[0]);
  close(ends[1]);
  return answer(daemon);
}
// The kernel no longer ends this process with its controller.
ATTACK(outlive_controller) { return outcome(prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0)); }
ATTACK(hang) {
  for (;;) sleep(1000);
}
ATTACK(share_memory) {
  int made = shmget(IPC_PRIVATE, 4096, 0600);
  if (made >= 0) shmctl(made, IPC_RMID, 0);
  return outcome(made);
}
ATTACK(new_namespace) {
  long made = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
  if (made == 0) _exit(0);
  if (made > 0) waitpid(made, 0, 0);
  return outcome(made);
}
// A child of the controller's, by either call.
static long siblings(int way) {
  uint64_t clone3[8] = {CLONE_PARENT, 0, 0, 0, SIGCHLD};
  long child = way ? syscall(SYS_clone3, clone3, sizeof clone3) : syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0);
  if (child == 0) _exit(0);
  if (child < 0 && way) errno = EPERM;
  return child;
}
ATTACK(child_of_controller) { return outcome(each(siblings, 2)); }
ATTACK(raise_limit) {
  struct rlimit limit;
  getrlimit(RLIMIT_CORE, &limit);
  limit.rlim_cur = limit.rlim_max = RLIM_INFINITY;
  return outcome(setrlimit(RLIMIT_CORE, &limit));
}
// The standard input of a test is no terminal, but a filter comes before that.
ATTACK(type_into_terminal) { return outcome(ioctl(0, TIOCSTI, "x")); }
ATTACK(take_terminal) {
  pid_t group = getpgrp();
  return outcome(ioctl(0, TIOCSPGRP, &group));
}
// A call by the number that another form of this processor's calls has.
ATTACK(call_by_x32) { return outcome(syscall(0x40000000 | SYS_getpid)); }

// What a session goes on with.
ATTACK(add) { return answer(number(data, 0) + number(data, 1)); }
static void *touch(void *word) {
  *(uint64_t *)word += 1;
  return 0;
}
ATTACK(start_threads) {
  uint64_t count = 0;
  for (int i = 0; i < 10; i++) {
    pthread_t thread;
    if (pthread_create(&thread, 0, touch, &count)) return answer(0);
    pthread_join(thread, 0);
  }
  return answer(count);
}
ATTACK(null) { return answer(*(volatile uint64_t *)0); }

// Bombs.
ATTACK(memory_bomb) {
  for (;;) {
    char *block = malloc(1 << 20);
    if (!block) abort();
    memset(block, 1, 1 << 20);
  }
}
// Memory of other kinds: answers how many bytes there were, up to a bound.
ATTACK(other_memory) {
  uint64_t bytes = 0, most = number(data, 0), block = 16 << 20;
  for (; bytes < most; bytes += block) {
    char *shared = mmap(0, block, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) break;
    memset(shared, 1, block);
  }
  int file = syscall(SYS_memfd_create, "bomb", MFD_CLOEXEC);
  if (file < 0) return answer(bytes);
  while (bytes < most && ftruncate(file, bytes + block) == 0) bytes += block;
  return answer(bytes);
}
ATTACK(busy_loop) {
  for (;;) __asm__ volatile("");
}
ATTACK(stubborn_loop) {
  signal(SIGXCPU, SIG_IGN);
  for (;;) __asm__ volatile("");
}
// Answers how many descriptors could be had, and gives them back if that is wanted.
ATTACK(descriptor_bomb) {
  uint64_t count = 0;
  int file;
  while (count < 1 << 16 && (file = dup(2)) >= 0) count++;
  return answer(count);
}
// Answers how many processes could be started, up to a bound; they end at once.
ATTACK(fork_bomb) {
  uint64_t count = 0;
  while (count < number(data, 0)) {
    pid_t child = fork();
    if (child < 0) break;
    if (child == 0) {
      for (;;) pause();
    }
    count++;
  }
  return answer(count);
}
static void *wait_for_ever(void *nothing) {
  for (;;) pause();
}
// Answers how many threads could be started, up to a bound.
ATTACK(thread_bomb) {
  uint64_t count = 0;
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 256 << 10);
  pthread_t thread;
  while (count < number(data, 0) && pthread_create(&thread, &small, wait_for_ever, 0) == 0) count++;
  return answer(count);
}
// The same of timers.
ATTACK(timer_bomb) {
  uint64_t count = 0;
  struct sigevent nothing = {.sigev_notify = SIGEV_NONE};
  timer_t timer;
  while (count < number(data, 0) && timer_create(CLOCK_MONOTONIC, &nothing, &timer) == 0) count++;
  return answer(count);
}
static uint64_t deeper(volatile uint64_t depth) {
  volatile char frame[4096];
  frame[depth % 4096] = 1;
  return depth ? deeper(depth + 1) + frame[0] : 0;
}
ATTACK(stack_bomb) { return answer(deeper(1)); }
ATTACK(file_bomb) {
  char block[4096] = {0};
  for (;;)
    if (write(1, block, sizeof block) < 0) return answer(errno);
}
