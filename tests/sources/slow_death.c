/* A crash of a process that takes long to end: cores are on, so the crash handler asks the kernel about each page of a large file. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

static const size_t FILE_BYTES = (size_t)64 << 30;

void crash(void) { *(volatile int *)0x10 = 1; }

void host(void);

static void *calls_the_host(void *unused) {
    host();
    return unused;
}

static void *starts_callers(void *unused) {
    for (int i = 0; i < 50; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, calls_the_host, NULL) == 0)
            pthread_detach(thread);
        usleep(1000);
    }
    return unused;
}

/* Prepares that death; false where the system refuses it. For 50 ms a new thread calls the host every millisecond. */
bool prepare(void) {
    struct rlimit core = {0};
    getrlimit(RLIMIT_CORE, &core);
    /* Too small for a core, and not 0. */
    core.rlim_cur = 1;
    int file = memfd_create("large", MFD_CLOEXEC);
    bool slow = setrlimit(RLIMIT_CORE, &core) == 0 && file >= 0 && ftruncate(file, FILE_BYTES) == 0 &&
               mmap(NULL, FILE_BYTES, PROT_READ, MAP_SHARED, file, 0) != MAP_FAILED;
    pthread_t thread;
    if (pthread_create(&thread, NULL, starts_callers, NULL) == 0)
        pthread_detach(thread);
    return slow;
}
