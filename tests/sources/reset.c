/* State of every kind that a reset puts back, and what makes a reset refuse. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

struct node {
    struct node *next;
    char filling[300];
};

static long counter = 5;
static struct node *list;
static long pages[64 * 512] __attribute__((aligned(4096)));
static _Thread_local long local = 40;
static long handled;
static FILE *stream;
static int opened = -1;
static char *kept;
static int kept_file = -1;
/* Four pages of numbers, a page that was written and one that was not of a file, a constant page, four pages that were never used,
 * a page that children get as zeros. */
static char *area, *of_file, *constant, *unused, *text, *wiped;
static char first_of_file;
/* The end of the heap, whose last page has sevens. */
static char *heap_end;
static long first_segment;

enum { PAGE = 4096 };

static char *map(long bytes) {
    return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void handler(int signal) { handled += signal; }

/* What is there before the snapshot. */
long begin(void) {
    kept = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(kept, 7, 8192);
    kept_file = open("/proc/self/exe", O_RDONLY);
    stream = tmpfile();
    setvbuf(stream, NULL, _IOFBF, 4096);
    for (long i = 0; i < 64; i++) pages[i * 512] = i;
    area = map(4 * PAGE);
    for (long i = 0; i < 4; i++) memset(area + i * PAGE, 1 + i, PAGE);
    of_file = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, kept_file, 0);
    first_of_file = of_file[PAGE];
    of_file[0] = 9;
    constant = map(PAGE);
    memset(constant, 6, PAGE);
    mprotect(constant, PAGE, PROT_READ);
    unused = map(4 * PAGE);
    wiped = map(PAGE);
    madvise(wiped, PAGE, 18);
    text = mmap(NULL, 2 * PAGE, PROT_READ, MAP_PRIVATE, kept_file, 0);
    heap_end = (char *)sbrk(16 * PAGE) + 16 * PAGE;
    memset(heap_end - PAGE, 7, PAGE);
    syscall(SYS_arch_prctl, 0x1004, &first_segment);
    return kept != MAP_FAILED && kept_file >= 0 && stream ? 0 : -1;
}

static long length(void) {
    long count = 0;
    for (struct node *node = list; node; node = node->next) count++;
    return count;
}

/* Changes all, and returns a number of what it has found before. */
long run(void) {
    struct sigaction action;
    char buffer[16];
    long found = 0;
    sigaction(SIGUSR1, NULL, &action);
    found = found * 10 + (action.sa_handler != SIG_DFL);
    found = found * 10 + counter++;
    found = found * 10 + length();
    for (int i = 0; i < 3; i++) {
        struct node *node = malloc(sizeof *node);
        node->next = list;
        list = node;
    }
    found = found * 100 + local++;
    found = found * 10 + ftell(stream);
    fputs("abc", stream);
    found = found * 10 + lseek(kept_file, 0, SEEK_CUR);
    if (read(kept_file, buffer, 5) != 5) return -1;
    int file = open("/dev/null", O_RDONLY);
    found = found * 10 + (opened >= 0 && file != opened);
    opened = file;
    signal(SIGUSR1, handler);
    raise(SIGUSR1);
    found = found * 10 + (handled != SIGUSR1);
    char *more = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(more, 1, 1 << 20);
    for (long i = 0; i < 64; i++) {
        if (pages[i * 512]++ != i) found = -found;
    }
    free(malloc(1 << 16));
    char *large = malloc(300000);
    memset(large, 3, 300000);
    kept[0]++;
    found = found * 10 + kept[4096] - 7;
    return found;
}

/* Touches 64 pages. */
long touch(void) {
    for (long i = 0; i < 64; i++) pages[i * 512]++;
    return pages[0];
}

/* Mappings, for a look from outside. */
long mappings(void) {
    FILE *maps = fopen("/proc/self/maps", "r");
    long lines = 0;
    for (int c; (c = getc(maps)) != EOF;) lines += c == '\n';
    fclose(maps);
    return lines;
}

long give_back(void) { return madvise(kept, 8192, MADV_DONTNEED) + kept[0]; }
/* 0 if the memory that the functions below change is as at first. */
long changed(void) {
    long segment = 0;
    for (long i = 0; i < 4 * PAGE; i++) {
        if (area[i] != 1 + i / PAGE) return 1 + i / PAGE;
        if (unused[i]) return 9;
    }
    if (of_file[0] != 9 || of_file[1] != 'E' || of_file[PAGE] != first_of_file) return 5;
    for (long i = 0; i < PAGE; i++) {
        if (constant[i] != 6) return 6;
        if (heap_end[i - PAGE] != 7) return 7;
    }
    if ((char *)syscall(SYS_brk, 0) < heap_end) return 8;
    syscall(SYS_arch_prctl, 0x1004, &segment);
    if (segment != first_segment) return 10;
    if (text[0] != 127 || text[PAGE] != first_of_file) return 12;
    if (wiped[0]) return 13;
    int processor = sched_getcpu();
    return processor < 0 ? 11 : 0;
}

static long drop(char *at, long bytes) {
    munlock(at, bytes);
    return madvise(at, bytes, MADV_DONTNEED);
}
long drop_area(void) { return drop(area + PAGE, 2 * PAGE); }
long drop_and_read(void) { return drop(area, 4 * PAGE) + area[0] + area[PAGE]; }
long drop_of_file(void) { return drop(of_file, 2 * PAGE); }
long drop_of_file_and_read(void) { return drop(of_file, 2 * PAGE) + of_file[0] - 127; }
long drop_constant(void) { return drop(constant, PAGE); }
long write_constant(void) {
    if (mprotect(constant, PAGE, PROT_READ | PROT_WRITE)) return -1;
    constant[5] = 1;
    return mprotect(constant, PAGE, PROT_READ);
}
long write_of_file(void) {
    of_file[PAGE] = first_of_file + 1;
    return of_file[1] = 0;
}
long use_wiped(void) { return wiped[0]++; }
long use_unused(void) {
    memset(unused, 1, 4 * PAGE);
    return unused[PAGE] - 1;
}
/* Pages change places. */
long exchange(void) {
    char *aside = map(PAGE);
    const int flags = MREMAP_MAYMOVE | MREMAP_FIXED;
    return mremap(area, PAGE, PAGE, flags, aside) != aside || mremap(area + PAGE, PAGE, PAGE, flags, area) != area
        || mremap(aside, PAGE, PAGE, flags, area + PAGE) != area + PAGE;
}
long move_away(void) { return mremap(area, PAGE, PAGE, MREMAP_MAYMOVE | 4, 0) == MAP_FAILED; }
static long map_over(char *at, int flags, int file) {
    return mmap(at, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | flags, file, 0) != at;
}
long map_over_area(void) { return map_over(area + PAGE, MAP_ANONYMOUS, -1); }
long map_over_and_write(void) { return map_over(area + PAGE, MAP_ANONYMOUS, -1) || (area[PAGE] = 2, 0); }
long map_over_of_file(void) { return map_over(of_file, 0, kept_file); }
/* Pages of a file at the same place that cannot be written: the kernel does not note what is written there any more. */
long map_over_text(void) {
    return mmap(text, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, kept_file, 0) != text || text[0] != 127;
}
long write_text(void) {
    if (mprotect(text, PAGE, PROT_READ | PROT_WRITE)) return -1;
    text[0] = text[5] = 1;
    return mprotect(text, PAGE, PROT_READ);
}
long grow_area(void) {
    char *grown = mremap(unused, 4 * PAGE, 8 * PAGE, 0);
    return grown != MAP_FAILED && (memset(grown, 1, 8 * PAGE), 0);
}
long guard(void) {
    munlock(area, 4 * PAGE);
    munlock(unused, 4 * PAGE);
    if (madvise(area, PAGE, 102)) return errno == EINVAL ? 0 : -1;
    return madvise(unused, 2 * PAGE, 102);
}
/* Advice that takes no contents away, if the kernel knows it. */
long advise(void) {
    static const int all[] = {0, 1, 2, 3, 10, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 25};
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
        madvise(area, 4 * PAGE, all[i]);
        madvise(unused, 4 * PAGE, all[i]);
        madvise(of_file, 2 * PAGE, all[i]);
    }
    return 0;
}
long lock_and_write(void) {
    mlock(area, 4 * PAGE);
    mlock(unused, 4 * PAGE);
    area[0] = unused[0] = 99;
    return 0;
}
/* The kernel writes. */
long write_by_kernel(void) {
    int ends[2], memory = open("/proc/self/mem", O_RDWR);
    struct iovec from = {"xyz", 3}, to = {area + PAGE, 3};
    if (pipe(ends) || write(ends[1], "abc", 3) != 3 || read(ends[0], area, 3) != 3) return -1;
    if (process_vm_writev(getpid(), &from, 1, &to, 1, 0) != 3) return -2;
    return pwrite(memory, "q", 1, (off_t)constant) != 1 || constant[0] != 'q';
}
long shrink_heap(void) { return (char *)syscall(SYS_brk, heap_end - PAGE) != heap_end - PAGE; }
long grow_heap(void) {
    char *end = (char *)syscall(SYS_brk, 0);
    return (char *)syscall(SYS_brk, end + 4 * PAGE) != end + 4 * PAGE || (memset(end, 1, 4 * PAGE), 0);
}
long change_segment(void) { return syscall(SYS_arch_prctl, 0x1001, 0x1000); }

/* What the filter refuses. */
static long fails(long result, int number) { return result == -1 && errno == number ? 0 : -1; }
long free_lazily(void) { return fails(madvise(area, 4 * PAGE, MADV_FREE), EINVAL); }
long free_lazily_by_process(void) {
    struct iovec range = {area, 4 * PAGE};
    return fails(syscall(SYS_process_madvise, syscall(SYS_pidfd_open, getpid(), 0), &range, 1, MADV_FREE, 0), EINVAL);
}
long free_lazily_in_child(void) {
    int status, child = fork();
    if (!child) _exit(free_lazily() ? 1 : 0);
    return waitpid(child, &status, 0) == child && status == 0 ? 0 : -1;
}
static void *free_in_thread(void *unused) { return (void *)free_lazily(); }
long free_lazily_in_thread(void) {
    pthread_t thread;
    void *result = (void *)1;
    return pthread_create(&thread, NULL, free_in_thread, NULL) || pthread_join(thread, &result) || result;
}
long make_uring(void) { return fails(syscall(SYS_io_uring_setup, 8, area), ENOSYS); }
long seal(void) { return fails(syscall(462, area, 4 * PAGE, 0), ENOSYS); }
long make_key(void) { return fails(syscall(SYS_pkey_alloc, 0, 0), ENOSYS); }
long note_faults(void) { return fails(syscall(SYS_userfaultfd, 1), ENOSYS); }

long set_up_io(void) {
    long context = 0;
    return syscall(SYS_io_setup, 4, &context);
}
static int stay(void *unused) {
    poll(NULL, 0, 5000);
    _exit(0);
}
long share_with_child(void) {
    char *stack = map(16 * PAGE);
    return fails(clone(stay, stack + 16 * PAGE, CLONE_VM, NULL), EINVAL);
}

long unmap(void) { return munmap(kept, 4096); }
long protect(void) { return mprotect(kept, 4096, PROT_READ); }
long remap(void) {
    int file = open("/proc/self/exe", O_RDONLY);
    return mmap(kept, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, file, 0) != kept;
}
long close_kept(void) { return close(kept_file); }

static void *wait_for_ever(void *unused) {
    for (;;) pause();
    return unused;
}
long start_thread(void) {
    pthread_t thread;
    return pthread_create(&thread, NULL, wait_for_ever, NULL);
}
long start_child(void) {
    int child = fork();
    if (!child) {
        alarm(10);
        for (;;) pause();
    }
    return child < 0;
}
long end_child(void) {
    int child = fork();
    if (!child) _exit(3);
    int status;
    return waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 3 ? 0 : -1;
}
long spin(void) {
    for (volatile long turn = 0;; turn++) counter++;
}
