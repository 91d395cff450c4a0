/* Four threads allocate, check, reallocate and free with mimalloc, some of it for one another. The first argument says how
   often. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mimalloc.h"

enum { THREADS = 4, BLOCKS = 300 };

struct block {
    unsigned char *bytes;
    size_t size;
    unsigned char mark;
};

static struct block blocks[THREADS][BLOCKS];
static pthread_barrier_t barrier;
static unsigned long sums[THREADS];
static int rounds = 6;

static void *work(void *argument) {
    int me = (int)(long)argument;
    unsigned state = 77 + (unsigned)me;
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < BLOCKS; i++) {
            struct block *block = &blocks[me][i];
            state = state * 1664525 + 1013904223;
            block->size = 1 + (state >> 16) % (i % 50 == 0 ? 60000 : 700);
            block->mark = (unsigned char)(state >> 8);
            block->bytes = i % 3 ? mi_malloc(block->size) : mi_zalloc_aligned(block->size, 64);
            if (!block->bytes) abort();
            if (i % 3 == 0 && ((unsigned long)block->bytes % 64 || block->bytes[block->size - 1])) abort();
            memset(block->bytes, block->mark, block->size);
            if (i % 7 == 0) block->bytes = mi_realloc(block->bytes, block->size * 2);
        }
        pthread_barrier_wait(&barrier);
        /* The blocks of the neighbour are looked at and freed here. */
        for (int i = 0; i < BLOCKS; i++) {
            struct block *block = &blocks[(me + 1) % THREADS][i];
            for (size_t at = 0; at < block->size; at++)
                if (block->bytes[at] != block->mark) abort();
            sums[me] += block->size * block->mark;
            mi_free(block->bytes);
        }
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

int main(int argc, char **argv) {
    if (argc > 1) rounds = atoi(argv[1]);
    /* Without it the memory stays when the program is unloaded. */
    mi_option_enable(mi_option_destroy_on_exit);
    pthread_t threads[THREADS];
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (long i = 0; i < THREADS; i++) {
        sums[i] = 0;
        if (pthread_create(&threads[i], NULL, work, (void *)i)) return 1;
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        printf("thread %d: %lu\n", i, sums[i]);
    }
    pthread_barrier_destroy(&barrier);
    char *text = mi_strdup("a copy");
    printf("mimalloc %d, %s, is ours %d\n", mi_version(), text, mi_is_in_heap_region(text));
    mi_free(text);
    return 19;
}
