/* Thread-locals of more than the executor's static TLS reserve has: initial values and zeroes, alignments, addresses of threads that
   run side by side, first uses in signal handlers and amid calculations, destructors of keys, and fork. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, BYTES = 256 << 10 };

extern _Thread_local char large[BYTES];
extern _Thread_local long words[5];
extern _Thread_local double weights[8];
extern _Thread_local int *pointer;
extern int plain;
long of_other(void);

static _Thread_local int numbers[1000] = {1, 2, 3, [500] = 7, [999] = 9};
static _Thread_local char zeroes[BYTES];
static _Thread_local char line[64] __attribute__((aligned(64))) = "a cache line";
static _Thread_local char page[4096] __attribute__((aligned(4096)));
static _Thread_local struct { char pad[3]; long value; } mixed = {{1, 2, 3}, -5};

static pthread_barrier_t barrier;
static pthread_key_t key;
static char *places[THREADS][4];
static long results[THREADS][8];

static long sum(const char *bytes, long count) {
    long sum = 0;
    for (long i = 0; i < count; i++) sum += bytes[i];
    return sum;
}

/* Its arguments are in registers while it asks for the first thread-local. */
__attribute__((noinline)) static double mix(double a, double b, double c, double d, double e, double f) {
    weights[3] += 1;
    return a * weights[0] + b * weights[1] + c * weights[2] + d * weights[3] + e * 5 + f * 6;
}

static void *work(void *argument) {
    long me = (long)argument, *result = results[me];
    result[0] = (long)(mix(1, 2, 3, 4, 5, 6) * 100);
    result[1] = sum(large, BYTES) + sum(zeroes, BYTES) + sum(page, sizeof page);
    for (int i = 0; i < 1000; i++) result[1] += numbers[i];
    memset(large, (int)me + 1, BYTES);
    memset(zeroes, 1, BYTES);
    numbers[500] += me;
    words[4] += me;
    mixed.value -= me;
    *pointer += 1;
    places[me][0] = large, places[me][1] = zeroes, places[me][2] = line, places[me][3] = page;
    pthread_barrier_wait(&barrier);
    result[2] = sum(large, BYTES) + sum(zeroes, BYTES);
    result[3] = numbers[500] + words[4] + mixed.value + mixed.pad[2];
    result[4] = (uintptr_t)line % 64 + (uintptr_t)page % 4096 + (uintptr_t)words % 8;
    result[5] = strcmp(line, "a cache line") + of_other();
    pthread_barrier_wait(&barrier);
    return NULL;
}

static void handle(int signal) { large[100000] += signal; }

static void *interrupted(void *unused) {
    (void)unused;
    raise(SIGUSR1);
    errno = 4000;
    long sum = large[100000] - SIGUSR1 + numbers[2];
    return (void *)(sum + errno);
}

static void at_end(void *value) {
    printf("key: %d %d\n", *(int *)value, numbers[0]);
    numbers[0]++;
    if (numbers[0] < 13) pthread_setspecific(key, value);
}

static void *with_key(void *unused) {
    (void)unused;
    numbers[0] = 11;
    pthread_setspecific(key, &numbers[1]);
    return NULL;
}

int main(void) {
    for (int round = 0; round < 3; round++) {
        pthread_t threads[THREADS];
        plain = 0;
        pthread_barrier_init(&barrier, NULL, THREADS);
        for (long i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, (void *)i);
        for (long i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
        for (int i = 0; i < THREADS; i++)
            for (int j = 0; j < 6; j++) printf("%ld%c", results[i][j], j < 5 ? ' ' : '\n');
        int distinct = 0;
        for (int i = 0; i < THREADS; i++)
            for (int j = 0; j < i; j++)
                for (int k = 0; k < 4; k++) distinct += places[i][k] != places[j][k];
        printf("%d\n", distinct);
    }
    signal(SIGUSR1, handle);
    pthread_key_create(&key, at_end);
    pthread_t thread;
    void *result;
    pthread_create(&thread, NULL, interrupted, NULL);
    pthread_join(thread, &result);
    printf("%ld\n", (long)result);
    pthread_create(&thread, NULL, with_key, NULL);
    pthread_join(thread, NULL);
    words[0] = 70;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        words[0]++;
        zeroes[3] += 2;
        pthread_create(&thread, NULL, interrupted, NULL);
        pthread_join(thread, &result);
        _exit((int)(words[0] + zeroes[3] + (long)result % 100));
    }
    int status;
    waitpid(child, &status, 0);
    printf("%d %ld %d\n", WEXITSTATUS(status), words[0], zeroes[3]);
    return 5;
}
