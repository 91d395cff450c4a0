/* A program that comes once with VALUE 1 and an allocator of its own, and once without it. Its variables have their initial values
   again after MADV_DONTNEED. */
#include <execinfo.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static long numbers[512] __attribute__((aligned(4096))) = {VALUE};

#if VALUE == 1
static char heap[1 << 16] __attribute__((aligned(16)));
static size_t used;

void *malloc(size_t bytes) {
    char *block = heap + used;
    used += (bytes + 31) & ~(size_t)15;
    return block;
}

void free(void *block) {}

static int is_right(void) {
    char *copy = strdup("text");
    return copy >= heap && copy < heap + sizeof heap;
}
#else
static int is_right(void) {
    void *frames[4];
    char **names = backtrace_symbols(frames, backtrace(frames, 4));
    free(names);
    return names != 0;
}
#endif

int main(void) {
    numbers[0] = 99;
    if (madvise(numbers, sizeof numbers, MADV_DONTNEED) != 0) return 1;
    if (numbers[0] != VALUE) return 2;
    return is_right() ? 0 : 3;
}
