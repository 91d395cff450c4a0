/* Threads whose stacks are as small as possible, and of a few other sizes, with a thread-local. */
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static __thread int counter = 4;

static void *work(void *argument) {
    volatile char frame[7000];
    memset((char *)frame, 1, sizeof frame);
    *(int *)argument = counter++ + frame[6999];
    return NULL;
}

int main(void) {
    size_t sizes[] = {PTHREAD_STACK_MIN, PTHREAD_STACK_MIN + 4096, 65536, 1 << 18, 1 << 20, 1 << 24};
    for (int i = 0; i < 6; i++) {
        pthread_attr_t attributes;
        pthread_t thread;
        int result = 0;
        size_t size = 0;
        pthread_attr_init(&attributes);
        int set = pthread_attr_setstacksize(&attributes, sizes[i]);
        int started = pthread_create(&thread, &attributes, work, &result);
        if (started == 0) pthread_join(thread, NULL);
        pthread_attr_getstacksize(&attributes, &size);
        printf("%zu %d %d %d\n", size, set, started, result);
        pthread_attr_destroy(&attributes);
    }
    return counter;
}
