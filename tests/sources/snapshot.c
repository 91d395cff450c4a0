/* State of every kind that a copy of an executor has of its own: data, heap, thread-locals, streams, children. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static long counts[3000];
static long *heap;
static _Thread_local long local = 40;
static long forks;

static void count_fork(void) { forks++; }

__attribute__((constructor)) static void begin(void) {
    heap = calloc(1000, sizeof(long));
    pthread_atfork(NULL, NULL, count_fork);
}

/* Counts in data, heap and a thread-local; the same number in each, or -1. */
long count(void) {
    long data = ++counts[1500], there = ++heap[500], own = ++local - 40;
    return data == there && there == own ? data : -1;
}

long forks_counted(void) { return forks; }

/* A child of the copy has the copy's data, and the copy does not have the child's. */
long in_child(void) {
    long before = count();
    pid_t child = fork();
    if (child == 0)
        _exit(count() == before + 1 ? 7 : 1);
    int status;
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 7)
        return -1;
    return count() == before + 1;
}

static void *idle(void *unused) {
    for (;;)
        pause();
    return unused;
}

long start_thread(void) {
    pthread_t thread;
    return pthread_create(&thread, NULL, idle, NULL);
}

static void *run_count(void *unused) {
    (void)unused;
    return (void *)local;
}

/* A thread of a copy has the thread-local's initial value. */
long local_of_thread(void) {
    pthread_t thread;
    void *found;
    if (pthread_create(&thread, NULL, run_count, NULL) || pthread_join(thread, &found))
        return -1;
    return (long)found;
}

/* Ways to end: see `ends_of_copies_are_named`. */
long end(long way) {
    if (way == 0)
        return *(volatile long *)8;
    if (way == 1)
        abort();
    if (way == 2)
        exit(9);
    if (way == 3)
        _exit(17);
    if (way == 4)
        raise(9);
    return way;
}

static FILE *file;

/* Writes to a stream that is open since the first call, and holds what was written. */
static int print(const char *path, const char *text) {
    if (!file)
        file = fopen(path, "w");
    return file ? fputs(text, file) : -1;
}

/* 0, or the error. */
long signal_process(long process) { return kill((pid_t)process, 0) ? errno : 0; }

long read_process(long process) {
    char byte;
    struct iovec here = {&byte, 1}, there = {&forks, 1};
    return process_vm_readv((pid_t)process, &here, 1, &there, 1, 0) == 1 ? 0 : errno;
}

double scaled(double);
double with_handler(double amount) { return scaled(amount) + 1; }

int main(int count_of_arguments, char **arguments) {
    if (count_of_arguments == 3)
        return print(arguments[1], arguments[2]) < 0;
    return count_of_arguments == 2 ? atoi(arguments[1]) + (int)count() : -1;
}

/* From now on the system refuses pidfd_getfd in all threads, as older filters of containers do; 0, or why not. */
long refuse_pidfd_getfd(void) {
    struct sock_filter filter[] = {
        {BPF_LD | BPF_W | BPF_ABS, 0, 0, 0},
        {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_pidfd_getfd},
        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | EPERM},
        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
    };
    struct sock_fprog program = {.len = 4, .filter = filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return errno;
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) ? errno : 0;
}
