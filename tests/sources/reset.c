/* State of every kind that a reset puts back, and what makes a reset refuse. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

struct node {
    struct node *next;
    char filling[300];
};

static long counter = 5;
static struct node *list;
static long pages[64 * 512] __attribute__((aligned(4096)));
static _Thread_local long local = 40;
static long handled;
static FILE *stream;
static int opened = -1;
static char *kept;
static int kept_file = -1;

static void handler(int signal) { handled += signal; }

/* What is there before the snapshot. */
long begin(void) {
    kept = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(kept, 7, 8192);
    kept_file = open("/proc/self/exe", O_RDONLY);
    stream = tmpfile();
    setvbuf(stream, NULL, _IOFBF, 4096);
    for (long i = 0; i < 64; i++) pages[i * 512] = i;
    return kept != MAP_FAILED && kept_file >= 0 && stream ? 0 : -1;
}

static long length(void) {
    long count = 0;
    for (struct node *node = list; node; node = node->next) count++;
    return count;
}

/* Changes all, and returns a number of what it has found before. */
long run(void) {
    struct sigaction action;
    char buffer[16];
    long found = 0;
    sigaction(SIGUSR1, NULL, &action);
    found = found * 10 + (action.sa_handler != SIG_DFL);
    found = found * 10 + counter++;
    found = found * 10 + length();
    for (int i = 0; i < 3; i++) {
        struct node *node = malloc(sizeof *node);
        node->next = list;
        list = node;
    }
    found = found * 100 + local++;
    found = found * 10 + ftell(stream);
    fputs("abc", stream);
    found = found * 10 + lseek(kept_file, 0, SEEK_CUR);
    if (read(kept_file, buffer, 5) != 5) return -1;
    int file = open("/dev/null", O_RDONLY);
    found = found * 10 + (opened >= 0 && file != opened);
    opened = file;
    signal(SIGUSR1, handler);
    raise(SIGUSR1);
    found = found * 10 + (handled != SIGUSR1);
    char *more = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(more, 1, 1 << 20);
    for (long i = 0; i < 64; i++) {
        if (pages[i * 512]++ != i) found = -found;
    }
    free(malloc(1 << 16));
    char *large = malloc(300000);
    memset(large, 3, 300000);
    kept[0]++;
    found = found * 10 + kept[4096] - 7;
    return found;
}

/* Touches 64 pages. */
long touch(void) {
    for (long i = 0; i < 64; i++) pages[i * 512]++;
    return pages[0];
}

/* Mappings, for a look from outside. */
long mappings(void) {
    FILE *maps = fopen("/proc/self/maps", "r");
    long lines = 0;
    for (int c; (c = getc(maps)) != EOF;) lines += c == '\n';
    fclose(maps);
    return lines;
}

long give_back(void) { return madvise(kept, 8192, MADV_DONTNEED) + kept[0]; }
long unmap(void) { return munmap(kept, 4096); }
long protect(void) { return mprotect(kept, 4096, PROT_READ); }
long remap(void) {
    int file = open("/proc/self/exe", O_RDONLY);
    return mmap(kept, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, file, 0) != kept;
}
long close_kept(void) { return close(kept_file); }

static void *wait_for_ever(void *unused) {
    for (;;) pause();
    return unused;
}
long start_thread(void) {
    pthread_t thread;
    return pthread_create(&thread, NULL, wait_for_ever, NULL);
}
long start_child(void) {
    int child = fork();
    if (!child) {
        alarm(10);
        for (;;) pause();
    }
    return child < 0;
}
long end_child(void) {
    int child = fork();
    if (!child) _exit(3);
    int status;
    return waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 3 ? 0 : -1;
}
long spin(void) {
    for (volatile long turn = 0;; turn++) counter++;
}
