// Attacks over the sockets that the executor was started with: floods, and descriptors that nobody asked for.
#include "attack.h"

// The letter by which an executor asks for a lane: src/call/contract.rs.
static const char ASKS = 'r';

// Puts a socket on which nothing ever comes in place of this one, so that the thread that reads it reads that from then on; returns
// a copy.
static int replace(int number) {
  int own[2], copy = dup(number);
  if (copy < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET, 0, own)) return number;
  dup2(own[0], number);
  return copy;
}

// Asks for lanes on every socket for half a second, as fast as they are taken, reads no answer, and dies. A child keeps the
// sockets open for five seconds.
struct farcall_result jam_and_die(const char *data, size_t size) {
  int sockets[SOCKETS], count = find_sockets(sockets, SOCKETS);
  for (int at = 0; at < count; at++) sockets[at] = replace(sockets[at]);
  for (uint64_t end = now_ms() + 500; now_ms() < end;) {
    int sent = 0;
    for (int at = 0; at < count; at++)
      sent += send(sockets[at], &ASKS, 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1;
    if (!sent) usleep(500);
  }
  if (fork() == 0) {
    sleep_ms(5000);
    _exit(0);
  }
  kill(getpid(), SIGKILL);
  return answer(0);
}

// Asks for as many lanes as the number says.
struct farcall_result ask_for_lanes(const char *data, size_t size) {
  int sockets[SOCKETS], count = find_sockets(sockets, SOCKETS);
  uint64_t sent = 0;
  for (int at = 0; at < count; at++) {
    int failures = 0;
    for (uint64_t left = number(data, 0); left && failures < 2000;) {
      if (send(sockets[at], &ASKS, 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1)
        left--, sent++, failures = 0;
      else
        failures++, usleep(100);
    }
  }
  sleep_ms(300);
  return answer(sent);
}

static void send_files(int socket, char letter, int files) {
  union {
    char bytes[CMSG_SPACE(sizeof(int) * 64)];
    struct cmsghdr header;
  } control;
  struct iovec data = {.iov_base = &letter, .iov_len = 1};
  struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = &control};
  message.msg_controllen = CMSG_SPACE(sizeof(int) * files);
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int) * files);
  for (int at = 0; at < files; at++) ((int *)CMSG_DATA(header))[at] = 2;
  sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

// Sends as many descriptors as the number says with each letter over each socket.
struct farcall_result send_descriptors(const char *data, size_t size) {
  int sockets[SOCKETS], count = find_sockets(sockets, SOCKETS);
  for (int at = 0; at < count; at++)
    for (const char *letter = "rlnps?"; *letter; letter++)
      send_files(sockets[at], *letter, (int)number(data, 0));
  sleep_ms(20);
  return answer(count);
}

struct farcall_result add(const char *data, size_t size) { return answer(number(data, 0) + number(data, 1)); }
