// What parent and child see of each other's data after a fork, in ten ways. Everything that it prints comes from the parent,
// which reads the children's words from a pipe.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static int counter = 1;
static int zeroed[3 * 4096];
static __thread int local = 7;
static char *heap;
static const char *words[] = {"one", "two", "three"};
static int (*function)(int) = abs;

// Runs a child that writes what it sees to the parent, which prints it with what it sees itself.
static void way(const char *name, void (*child)(int), void (*meanwhile)(void)) {
  int ends[2], go[2];
  if (pipe(ends) || pipe(go)) exit(100);
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) {
    char byte;
    if (meanwhile && read(go[0], &byte, 1) != 1) _exit(101);
    child(ends[1]);
    _exit(0);
  }
  close(ends[1]);
  if (meanwhile) {
    meanwhile();
    if (write(go[1], "g", 1) != 1) exit(102);
  }
  char text[512] = "";
  for (size_t size = 0; size < sizeof text - 1;) {
    ssize_t got = read(ends[0], text + size, sizeof text - 1 - size);
    if (got <= 0) break;
    size += (size_t)got;
  }
  int status = -1;
  waitpid(pid, &status, 0);
  close(ends[0]);
  close(go[0]);
  close(go[1]);
  printf("%s: child %s, status %#x; parent counter %d zeroed %d %d local %d heap %s word %s function %d\n", name, text,
         status, counter, zeroed[0], zeroed[2 * 4096], local, heap, words[1], function(-5));
}

static void see(int to) {
  dprintf(to, "counter %d zeroed %d %d local %d heap %s word %s function %d", counter, zeroed[0], zeroed[2 * 4096], local,
          heap, words[1], function(-5));
}

static int twice(int number) { return 2 * number; }

static void change(void) {
  counter += 10;
  zeroed[0] += 20;
  zeroed[2 * 4096] += 30;
  local += 40;
  strcpy(heap, "changed");
  words[1] = "second";
  function = twice;
}

static void change_and_see(int to) {
  change();
  see(to);
}

// The child of a child.
static void nested(int to) {
  counter += 100;
  pid_t pid = fork();
  if (pid == 0) {
    counter += 1000;
    dprintf(to, "grandchild %d; ", counter);
    _exit(0);
  }
  waitpid(pid, 0, 0);
  see(to);
}

// A shell's subshell loop: each goes on from the parent's state.
static void subshells(int to) {
  for (int round = 0; round < 3; round++) {
    counter++;
    pid_t pid = fork();
    if (pid == 0) {
      counter *= 100;
      dprintf(to, "%d ", counter);
      _exit(0);
    }
    waitpid(pid, 0, 0);
  }
  see(to);
}

static void in_library(int to) {
  void *library = dlopen("libm.so.6", RTLD_NOW);
  double (*root)(double) = (double (*)(double))(uintptr_t)dlsym(library, "sqrt");
  zeroed[5] = (int)root(counter * counter * 1.0);
  dprintf(to, "root %d; ", zeroed[5]);
  see(to);
}

static void daemonized(int to) {
  pid_t pid = fork();
  if (pid) _exit(0);
  setsid();
  counter += 5;
  see(to);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile int stops;
static long long ticks;

static void *tick(void *unused) {
  (void)unused;
  while (!stops) {
    pthread_mutex_lock(&lock);
    ticks++;
    pthread_mutex_unlock(&lock);
  }
  return 0;
}

static void tick_stands(int to) {
  long long first = ticks;
  usleep(20000);
  dprintf(to, "%s; ", ticks == first ? "stands" : "runs on");
  see(to);
}

static void prepare(void) { pthread_mutex_lock(&lock); }
static void release(void) { pthread_mutex_unlock(&lock); }

int main(void) {
  heap = malloc(64);
  strcpy(heap, "as it was");
  way("sees", see, 0);
  way("changes", change_and_see, 0);
  way("parent changes meanwhile", see, change);
  way("nested", nested, 0);
  way("subshells", subshells, 0);
  way("library", in_library, 0);
  way("daemon", daemonized, 0);

  pthread_t thread;
  pthread_atfork(prepare, release, release);
  if (pthread_create(&thread, 0, tick, 0)) return 103;
  way("threads", tick_stands, 0);
  stops = 1;
  pthread_join(thread, 0);

  pid_t pid = vfork();
  if (pid == 0) {
    execlp("sh", "sh", "-c", "exit 9", (char *)0);
    _exit(104);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  printf("vfork: status %#x, counter %d\n", status, counter);
  char *arguments[] = {"sh", "-c", "exit 11", 0};
  if (posix_spawn(&pid, "/bin/sh", 0, 0, arguments, environ)) return 105;
  waitpid(pid, &status, 0);
  printf("posix_spawn: status %#x, counter %d\n", status, counter);

  int sum = 0;
  for (int round = 0; round < 1000; round++) {
    pid = fork();
    if (pid == 0) {
      counter = round & 0x3f;
      _exit(counter);
    }
    waitpid(pid, &status, 0);
    sum += WEXITSTATUS(status);
  }
  printf("1000 forks: %d, counter %d\n", sum, counter);
  free(heap);
  return 0;
}
