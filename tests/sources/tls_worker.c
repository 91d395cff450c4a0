/* Threads that wait, and run what they are told: of a dylib that stays while others come and go. */
#include <pthread.h>
#include <stddef.h>
#include <string.h>

typedef struct {
    char bytes[8];
    size_t size;
} Result;

enum { THREADS = 3 };

static pthread_t threads[THREADS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static long (*task)(void);
static long round_number, sum, left;

static Result number(long value) {
    Result result = {{0}, sizeof value};
    memcpy(result.bytes, &value, sizeof value);
    return result;
}

static void *work(void *unused) {
    (void)unused;
    pthread_mutex_lock(&lock);
    long seen = 0;
    for (;;) {
        while (round_number == seen) pthread_cond_wait(&changed, &lock);
        seen = round_number;
        if (task == NULL) break;
        sum += task();
        left--;
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* Starts the threads; says how many. */
Result start(const char *data, size_t size) {
    (void)data, (void)size;
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, NULL) != 0) return number(i);
    return number(THREADS);
}

/* Lets each thread run the function whose address comes; returns the sum of what they return. */
Result run(const char *data, size_t size) {
    (void)size;
    pthread_mutex_lock(&lock);
    memcpy(&task, data, sizeof task);
    sum = 0, left = THREADS, round_number++;
    pthread_cond_broadcast(&changed);
    while (left > 0) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    return number(sum);
}

/* Ends the threads. */
Result stop(const char *data, size_t size) {
    (void)data, (void)size;
    pthread_mutex_lock(&lock);
    task = NULL, round_number++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    return number(0);
}
