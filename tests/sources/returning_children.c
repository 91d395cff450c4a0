// Children that this program forks return from the function that they are in, as children natively may: from `main`, also
// where a constructor has forked them. The first argument says which.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int begun = 1;
static const char *role = "parent";

static void say_goodbye(void) { printf("%s: an exit handler, begun %d\n", role, begun); }
static void say_status(int status, void *unused) {
  (void)unused;
  printf("%s: status %d\n", role, status);
}

static int status_of(pid_t child) {
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static pid_t constructed = -1;

__attribute__((constructor)) static void construct(int argc, char **argv) {
  if (argc < 2 || strcmp(argv[1], "constructor")) return;
  constructed = fork();
  if (constructed == 0) role = "child of a constructor";
}

static int textbook(void) {
  pid_t p = fork();
  if (p == 0)
    printf("child\n");
  else {
    wait(NULL);
    printf("parent\n");
  }
  return 0;
}

static int handlers(void) {
  atexit(say_goodbye);
  on_exit(say_status, 0);
  printf("pending in both; ");
  pid_t child = fork();
  if (child == 0) {
    role = "child";
    begun += 10;
    atexit(say_goodbye);
    printf("no newline");
    return 7;
  }
  printf("the child's status: %d\n", status_of(child));
  return 3;
}

static int nested(int depth) {
  if (depth == 0) return 1;
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) return nested(depth - 1) + 1;
  int status = status_of(child);
  printf("depth %d: the child's status %d\n", depth, status);
  return depth + 20;
}

static int pool(void) {
  pid_t workers[4];
  int ends[2];
  if (pipe(ends)) return 100;
  for (int at = 0; at < 4; at++) {
    workers[at] = fork();
    if (workers[at] == 0) {
      dprintf(ends[1], "%d", at);
      return 0;
    }
  }
  close(ends[1]);
  int statuses = 0, sum = 0;
  for (int at = 0; at < 4; at++) statuses += status_of(workers[at]);
  for (char digit; read(ends[0], &digit, 1) == 1;) sum += digit - '0';
  printf("statuses %d, sum %d\n", statuses, sum);
  return 0;
}

static int constructor(void) {
  if (constructed == 0) {
    printf("%s: main\n", role);
    return 5;
  }
  printf("the child's status: %d\n", status_of(constructed));
  return 6;
}

static int daemonized(void) {
  int ends[2];
  if (pipe(ends)) return 100;
  fflush(stdout);
  pid_t parent = getpid();
  if (fork()) return 4;
  role = "daemon";
  setsid();
  on_exit(say_status, 0);
  // Until the parent has ended.
  while (getppid() == parent) usleep(1000);
  printf("daemon: alone\n");
  return 9;
}

int main(int argc, char **argv) {
  const char *which = argc > 1 ? argv[1] : "textbook";
  if (!strcmp(which, "handlers")) return handlers();
  if (!strcmp(which, "nested")) return nested(4);
  if (!strcmp(which, "pool")) return pool();
  if (!strcmp(which, "constructor")) return constructor();
  if (!strcmp(which, "daemon")) return daemonized();
  return textbook();
}
