// Code that never returns, of many kinds, each called by a function with a destructor.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdexcept>
#include <string>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

static volatile long counter, kept, begun, cleaned;
static thread_local volatile long of_thread = 7;

struct Cleanup {
    Cleanup() { begun = begun + 1; }
    ~Cleanup() { cleaned = cleaned + 1; }
};

static __attribute__((noipa)) void other() { __asm__ volatile(""); }

static __attribute__((noipa)) void loop() {
    for (;;) counter = counter + 1;
}

static __attribute__((noipa)) void recursion(int depth) {
    Cleanup cleanup;
    if (depth == 0) loop();
    recursion(depth - 1);
    other();
}

static void recursion_of_200() { recursion(200); }

static __attribute__((noipa)) void allocations() {
    for (;;) {
        void *volatile bytes = malloc(100 + counter % 1000);
        if (!bytes) abort();
        free(bytes);
        counter = counter + 1;
    }
}

// No initializers of local variables: an interrupt may leave one without its cleanup, and it would never be initialized.
static FILE *volatile file;

static __attribute__((noipa)) void prints() {
    if (!file) file = tmpfile();
    for (;;) {
        if (counter % 10000 == 0) rewind(file);
        fprintf(file, "%ld %s\n", static_cast<long>(counter), "words");
        counter = counter + 1;
    }
}

// Volatile: a compiler sees that the loop never ends, and drops stores that only a next call would read.
static char *volatile from, *volatile to;

#ifndef COPY_BYTES
#define COPY_BYTES (256 << 20)
#endif

static __attribute__((noipa)) void copies() {
    const size_t size = COPY_BYTES;
    if (!from) from = static_cast<char *>(malloc(size));
    if (!to) to = static_cast<char *>(malloc(size));
    for (;;) {
        memcpy(to, from, size);
        counter = counter + to[counter % 1000] + 1;
    }
}

static __attribute__((noipa)) void sleeps() {
    for (;;) sleep(1000);
}

static int ends[2], made = pipe(ends);

static __attribute__((noipa)) void reads() {
    char byte;
    for (;;) counter = counter + (made == 0 && read(ends[0], &byte, 1) > 0);
}

static __attribute__((noipa)) void waits() {
    static int word;
    for (;;) syscall(SYS_futex, &word, FUTEX_WAIT, 0, 0, 0, 0);
}

static __attribute__((noipa)) void throws() {
    for (;;) {
        try {
            throw std::runtime_error("thrown");
        } catch (const std::exception &error) {
            counter = counter + 1;
        }
    }
}

static __attribute__((noipa)) void strings() {
    for (;;) {
        std::string words(100 + counter % 100, 'x');
        words += words;
        counter = counter + static_cast<long>(words.size() > 100);
    }
}

static __attribute__((noipa)) void blocks_signals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    loop();
}

static void (*const kinds[])() = {loop,  recursion_of_200, allocations, prints, copies, sleeps,
                                  reads, waits,            throws,      strings, blocks_signals};

extern "C" __attribute__((noipa)) void run(long kind) {
    Cleanup cleanup;
    of_thread = 42;
    kinds[kind]();
    other();
}

extern "C" long count() { return kept = kept + 1; }

extern "C" long cleanups_begun() { return begun; }

extern "C" long cleanups_run() { return cleaned; }

// 0 if the heap, streams and variables are whole, or the number of the part that is not.
extern "C" long check() {
    std::vector<std::string> blocks;
    for (size_t size = 1; size < 1 << 20; size = size * 3 / 2 + 1) blocks.emplace_back(size, static_cast<char>(size));
    for (const std::string &block : blocks)
        if (block.front() != block.back() || block.front() != static_cast<char>(block.size())) return 1;
    blocks.clear();
    FILE *file = tmpfile();
    if (!file) return 2;
    for (long line = 0; line < 200; line++) fprintf(file, "line %ld\n", line);
    rewind(file);
    for (long line = 0, read; line < 200; line++)
        if (fscanf(file, " line %ld", &read) != 1 || read != line) return 3;
    if (fclose(file)) return 4;
    if (of_thread != 42 && of_thread != 7) return 5;
    try {
        throw std::runtime_error("thrown");
    } catch (const std::exception &error) {
        return strcmp(error.what(), "thrown") ? 6 : 0;
    }
}
