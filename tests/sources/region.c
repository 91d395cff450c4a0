/* Functions that use a region of the host's in place, and that try what they may not. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

struct row {
    double price, quantity, total;
    uint64_t key;
};

/* Returns the address of the rows, as it sees it. */
struct row *total(struct row *rows, uint64_t count) {
    for (uint64_t at = 0; at < count; at++)
        rows[at].total = rows[at].price * rows[at].quantity;
    return rows;
}

/* One row, with more parameters than registers take. */
int32_t rate(struct row *row, double rate, int32_t number, int16_t a, int16_t b, int16_t c, int16_t d, int64_t key) {
    if (number == 1000)
        __builtin_trap();
    row->total = row->price * rate + number + a + b + c + d;
    row->key = key;
    return number;
}

/* Stores 1, 2, 3 ... and then begins again; never returns. */
void fill_for_ever(volatile uint64_t *words, uint64_t count) {
    for (;;)
        for (uint64_t at = 0; at < count; at++)
            words[at] = at + 1;
}

uint64_t sum(const uint64_t *words, uint64_t count) {
    uint64_t sum = 0;
    for (uint64_t at = 0; at < count; at++)
        sum += words[at];
    return sum;
}

/* Waits for an odd turn in `word`, adds one, and so on; returns what it saw last. */
uint64_t take_turns(uint64_t *word, uint64_t mine, uint64_t turns) {
    uint64_t seen;
    do {
        seen = __atomic_load_n(word, __ATOMIC_ACQUIRE);
        if (seen < turns && seen % 2 == mine)
            __atomic_store_n(word, seen + 1, __ATOMIC_RELEASE);
        else
            usleep(10);
    } while (seen < turns);
    return seen;
}

void scribble(void *start, uint64_t bytes) { memset(start, 0xa5, bytes); }

void poke(volatile uint64_t *word) { *word = 1; }
uint64_t peek(const volatile uint64_t *word) { return *word; }

/* The address of a list whose nodes point at each other: sums their values. */
struct node {
    struct node *next;
    uint64_t value;
};
uint64_t sum_list(const struct node *node) {
    uint64_t sum = 0;
    for (; node; node = node->next)
        sum += node->value;
    return sum;
}

/* Maps a page of its own at this address. */
uint64_t occupy(void *at) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    return (uint64_t)mmap(at, 4096, PROT_READ, flags, -1, 0);
}

/* The bits of what made a page of a read-only region writable, or changed it. */
uint64_t force(void *page, long host, long descriptor) {
    uint64_t forced = 0;
    char path[64];
    if (mprotect(page, 4096, PROT_READ | PROT_WRITE) == 0)
        forced |= 1;
    if (madvise(page, 4096, MADV_REMOVE) == 0)
        forced |= 2;
    snprintf(path, sizeof path, "/proc/%ld/fd/%ld", host, descriptor);
    int file = open(path, O_RDWR);
    if (file < 0)
        return forced | 1024; /* The system itself forbids it. */
    if (mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) != MAP_FAILED)
        forced |= 4;
    if (pwrite(file, "x", 1, 0) == 1)
        forced |= 8;
    if (ftruncate(file, 0) == 0)
        forced |= 16;
    if (fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) == 0)
        forced |= 32;
    if (fcntl(file, F_ADD_SEALS, F_SEAL_WRITE) == 0)
        forced |= 64;
    close(file);
    return forced;
}

/* How many descriptors of any thread of this process are files with this name. */
uint64_t descriptors(const char *name) {
    uint64_t found = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; tasks && (task = readdir(tasks));) {
        char folder[300], path[600], target[256];
        snprintf(folder, sizeof folder, "/proc/self/task/%s/fd", task->d_name);
        DIR *files = task->d_name[0] == '.' ? NULL : opendir(folder);
        for (struct dirent *file; files && (file = readdir(files));) {
            snprintf(path, sizeof path, "%s/%s", folder, file->d_name);
            ssize_t bytes = readlink(path, target, sizeof target - 1);
            target[bytes > 0 ? bytes : 0] = 0;
            found += strstr(target, name) != NULL;
        }
        if (files)
            closedir(files);
    }
    if (tasks)
        closedir(tasks);
    return found;
}

static uint64_t own;

/* A child stores into the region and into a variable of the program. */
uint64_t fork_and_store(uint64_t *word) {
    int status;
    pid_t child = fork();
    if (child == 0) {
        *word = 7;
        own = 7;
        _exit(0);
    }
    waitpid(child, &status, 0);
    return own;
}
