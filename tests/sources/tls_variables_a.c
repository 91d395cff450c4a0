/* Thread-locals of two objects: initialised and zero, shared and static, small, large and aligned, in the first
   thread and in others. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

extern __thread int shared;
extern __thread short shared_zero;
extern __thread char shared_array[3000];
int *address_of_shared(void);
long sum_of_b(void);
void change_b(int by);

__thread long from_a = 1000;
static __thread char byte = 'x';
static __thread int zeroes[10000];
static __thread double aligned __attribute__((aligned(64))) = 2.5;
static __thread char aligned_zero[65] __attribute__((aligned(128)));
static int target = 17;
static __thread int *pointer = &target;
static __thread const char *text = "text";

static int misaligned(void) {
    return (uintptr_t)&aligned % 64 != 0 || (uintptr_t)aligned_zero % 128 != 0;
}

static void *work(void *argument) {
    char *line = argument;
    int by = line[0];
    int dirty = 0;
    for (int i = 0; i < 10000; i++) dirty |= zeroes[i];
    for (int i = 0; i < 3000; i++) dirty |= shared_array[i];
    for (int i = 0; i < 65; i++) dirty |= aligned_zero[i];
    change_b(by);
    shared += by;
    shared_zero -= by;
    from_a *= by;
    byte += by;
    aligned *= by;
    *pointer += by;
    zeroes[9999] = shared_array[2999] = aligned_zero[64] = by;
    sprintf(line, "%d %d %d %ld %c %g %d %d %s %ld %d", dirty, shared, shared_zero, from_a, byte, aligned,
            zeroes[9999], misaligned(), text, sum_of_b(), address_of_shared() == &shared);
    return NULL;
}

int main(void) {
    char lines[6][200] = {{1}, {2}, {3}, {4}, {5}, {6}};
    work(lines[0]);
    work(lines[1]);
    for (int i = 2; i < 6; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, work, lines[i]) != 0) {
            puts("no thread");
            return 1;
        }
        pthread_join(thread, NULL);
    }
    for (int i = 0; i < 6; i++) puts(lines[i]);
    printf("%d %d %ld %d %s\n", shared, shared_zero, from_a, target, strchr(text, 'x'));
    return 0;
}
