/* What qemu-user lacks, for tests: get_robust_list, by which an executor finds the thread pointers of its threads. The kernel
 * tells an address at one distance from the thread pointer in all threads; this library, preloaded, tells the thread pointer.
 *
 * It knows the threads that pthread_create has started since it was loaded, and the first one. Others are qemu's own, which the
 * program sees in /proc: they have ended, as it is told. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { THREADS_MAX = 65536 };
static _Atomic int numbers[THREADS_MAX];
static _Atomic unsigned long pointers[THREADS_MAX];
static unsigned long first_pointer;
static _Atomic unsigned started;
static _Atomic int starting;

static long kernel(long number, const long *words) {
    register long x8 asm("x8") = number;
    register long x0 asm("x0") = words[0];
    register long x1 asm("x1") = words[1];
    register long x2 asm("x2") = words[2];
    register long x3 asm("x3") = words[3];
    register long x4 asm("x4") = words[4];
    register long x5 asm("x5") = words[5];
    asm volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
}

static unsigned long own_pointer(void) { return (unsigned long)__builtin_thread_pointer(); }

static int own_number(void) { return (int)kernel(SYS_gettid, (long[6]){0}); }

static void note(void) {
    unsigned slot = atomic_fetch_add(&started, 1) % THREADS_MAX;
    atomic_store(&pointers[slot], own_pointer());
    atomic_store(&numbers[slot], own_number());
}

/* The newest thread of a number; a number is used again when its thread has ended. */
static unsigned long pointer_of(int number) {
    if (number == 0 || number == own_number()) return own_pointer();
    unsigned end = atomic_load(&started);
    for (unsigned back = 1; back <= end && back < THREADS_MAX; back++) {
        unsigned slot = (end - back) % THREADS_MAX;
        if (atomic_load(&numbers[slot]) == number) return atomic_load(&pointers[slot]);
    }
    return number == getpid() ? first_pointer : 0;
}

long syscall(long number, ...) {
    long words[6];
    va_list rest;
    va_start(rest, number);
    for (int i = 0; i < 6; i++) words[i] = va_arg(rest, long);
    va_end(rest);
    if (number == SYS_get_robust_list) {
        int may_start = atomic_load(&starting);
        unsigned long pointer = pointer_of((int)words[0]);
        if (!pointer && !may_start) {
            errno = ESRCH;
            return -1;
        }
        *(unsigned long *)words[1] = pointer;
        *(size_t *)words[2] = 24;
        return 0;
    }
    long result = kernel(number, words);
    if (result < 0 && result > -4096) {
        errno = (int)-result;
        return -1;
    }
    return result;
}

struct start {
    void *(*function)(void *);
    void *argument;
};

static void *begin(void *given) {
    struct start start = *(struct start *)given;
    free(given);
    note();
    atomic_fetch_sub(&starting, 1);
    return start.function(start.argument);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *), void *argument) {
    int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) = dlsym(RTLD_NEXT, "pthread_create");
    struct start *start = malloc(sizeof *start);
    if (!start) return EAGAIN;
    *start = (struct start){function, argument};
    atomic_fetch_add(&starting, 1);
    int status = create(thread, attributes, begin, start);
    if (status) {
        atomic_fetch_sub(&starting, 1);
        free(start);
    }
    return status;
}

__attribute__((constructor)) static void load(void) { first_pointer = own_pointer(); }
