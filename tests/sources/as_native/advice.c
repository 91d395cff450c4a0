/* Advice about variables, some of which changes what is read. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 16 };

static char zero[PAGES * PAGE] __attribute__((aligned(PAGE)));
static char values[PAGES * PAGE] __attribute__((aligned(PAGE))) = {[0] = 'a', [PAGE] = 'b', [PAGES * PAGE - 1] = 'z'};

static void show(const char *when) {
    printf("%s: %d %d %d %d, %d %d %d %d\n", when, zero[0], zero[PAGE + 5], zero[2 * PAGE], zero[PAGES * PAGE - 1], values[0],
           values[PAGE], values[2 * PAGE], values[PAGES * PAGE - 1]);
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    memset(zero, 1, sizeof zero);
    memset(values, 2, sizeof values);
    show("set");
    printf("%d\n", madvise(zero + PAGE, PAGE, MADV_DONTNEED));
    show("a page of zeroes");
    printf("%d\n", madvise(zero, sizeof zero, MADV_DONTNEED));
    printf("%d\n", madvise(values + PAGE, (PAGES - 1) * PAGE, MADV_DONTNEED));
    show("all but a page of values");
    printf("%d\n", madvise(values, 1, MADV_DONTNEED));
    show("all");
    memset(zero, 3, sizeof zero);
    show("set again");
    printf("free %d\n", madvise(zero, PAGE, MADV_FREE));
    zero[0] = 4;
    printf("written %d\n", zero[0]);
    printf("wipe %d\n", madvise(zero + PAGE, 2 * PAGE, MADV_WIPEONFORK));
    zero[PAGE + 5] = 5;
    pid_t pid = fork();
    if (pid == 0) {
        show("child");
        printf("in the child %d\n", madvise(zero, sizeof zero, MADV_DONTNEED));
        show("child");
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    show("parent");
    printf("keep %d\n", madvise(zero + 2 * PAGE, PAGE, MADV_KEEPONFORK));
    pid = fork();
    if (pid == 0) {
        show("second child");
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    printf("other memory %d\n", madvise(zero, sizeof zero, MADV_WILLNEED));
    void *own = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *(char *)own = 1;
    printf("%d %d\n", madvise(own, PAGE, MADV_DONTNEED), *(char *)own);
    printf("%d\n", madvise(zero + 1, PAGE, MADV_DONTNEED));
    return 0;
}
