/* Threads: started, joined, synchronised, with keys and their destructors; and what the first thread is. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 20000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static long total, prepared, ended, turn, order[THREADS];

static void prepare(void) { prepared++; }
static void end_of_thread(void *value) {
    free(value);
    __atomic_fetch_add(&ended, 1, __ATOMIC_RELAXED);
}

static void *work(void *argument) {
    long self = (long)argument;
    pthread_once(&once, prepare);
    pthread_setspecific(key, malloc(16));
    for (int i = 0; i < ROUNDS; i++) {
        pthread_mutex_lock(&lock);
        total += self;
        pthread_mutex_unlock(&lock);
    }
    pthread_mutex_lock(&lock);
    while (turn != self) pthread_cond_wait(&turned, &lock);
    order[turn++] = self;
    pthread_cond_broadcast(&turned);
    pthread_mutex_unlock(&lock);
    if (self == 2) pthread_exit((void *)200);
    return (void *)(self * self);
}

int main(void) {
    printf("main runs on the first thread: %d\n", gettid() == getpid());
    pthread_key_create(&key, end_of_thread);
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < THREADS; i++) {
        void *result;
        pthread_join(threads[i], &result);
        printf("joined %d: %ld\n", i, (long)result);
    }
    for (int i = 0; i < THREADS; i++) printf("turn %d: thread %ld\n", i, order[i]);
    printf("total %ld, prepared %ld, ended %ld\n", total, prepared, ended);
    return 0;
}
