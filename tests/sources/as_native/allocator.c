/* An allocator of the program's own, which ends the program when it gets a block of another one. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct head {
    size_t bytes;
    uint64_t mark;
};

static const uint64_t mark = 0x6d61726b6d61726bu;
atomic_int allocator_calls;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *next, *end;

static void *take(size_t alignment, size_t bytes) {
    pthread_mutex_lock(&lock);
    size_t room = bytes + alignment + sizeof(struct head) + 64;
    if ((size_t)(end - next) < room) {
        size_t chunk = room > (4 << 20) ? room : 4 << 20;
#ifdef FROM_BREAK
        next = sbrk(chunk);
#else
        next = mmap(NULL, chunk, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
#endif
        end = next + chunk;
    }
    char *block = (char *)(((uintptr_t)next + sizeof(struct head) + alignment - 1) & -alignment);
    ((struct head *)block)[-1] = (struct head){bytes, mark};
    next = block + bytes;
    pthread_mutex_unlock(&lock);
    allocator_calls++;
    return block;
}

static struct head *head_of(void *block) {
    struct head *head = (struct head *)block - 1;
    if (head->mark != mark) {
        static const char text[] = "a block of another allocator\n";
        if (write(2, text, sizeof text - 1) < 0)
            _exit(3);
        _exit(2);
    }
    return head;
}

void *malloc(size_t bytes) { return take(16, bytes); }
void free(void *block) {
    if (block)
        head_of(block);
}
void *calloc(size_t count, size_t bytes) { return memset(take(16, count * bytes), 0, count * bytes); }
void *realloc(void *block, size_t bytes) {
    void *larger = take(16, bytes);
    if (block) {
        size_t old = head_of(block)->bytes;
        memcpy(larger, block, old < bytes ? old : bytes);
    }
    return larger;
}
void *memalign(size_t alignment, size_t bytes) { return take(alignment < 16 ? 16 : alignment, bytes); }
void *aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }
int posix_memalign(void **block, size_t alignment, size_t bytes) {
    *block = memalign(alignment, bytes);
    return 0;
}
size_t malloc_usable_size(void *block) { return block ? head_of(block)->bytes : 0; }
