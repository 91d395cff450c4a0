/* A fault for each first byte. */
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static volatile int sink;
static int calls;

__attribute__((noinline)) static int deeper(volatile int *of) {
    volatile int room[1024];
    room[0] = *of + 1;
    return deeper(room) + room[0];
}

__attribute__((noinline)) static void poke(void) { *(volatile int *)0xdadbeef = 1; }
__attribute__((noinline)) static void grow_stale(void) { *(volatile int *)0xdadbeef = 2; }
__attribute__((noinline)) static void stop(void) { abort(); }
__attribute__((noinline)) static void leave(void) { exit(3); }
__attribute__((noinline)) static void spin(void) { for (;;) sink++; }
__attribute__((noinline)) static void spin_alone(void) {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    spin();
}
__attribute__((noinline)) static void read_on(const uint8_t *data, size_t size) { sink = data[size]; }
static void *volatile last;
__attribute__((noinline)) static void fill(void) {
    for (;;)
        last = memset(malloc(1 << 20), 1, 1 << 20);
}

int LLVMFuzzerInitialize(int *count, char ***words) {
    calls = *count == 1 && (*words)[1] == NULL ? 100 : 0;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    calls++;
    if (size == 0)
        return 0;
    switch (data[0]) {
    case 'a': stop(); break;
    case 'b': spin_alone(); break;
    case 'e': leave(); break;
    case 'h': spin(); break;
    case 'm': fill(); break;
    case 'o': sink = deeper(&sink); break;
    case 'p': poke(); break;
    case 'r': read_on(data, size); break;
    case 'x': return -1;
    /* Only in a process that has run other inputs. */
    case 'y': if (calls > 101) grow_stale(); break;
    }
    return 0;
}
