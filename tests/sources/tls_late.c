/* Thread-locals that arrive when threads run already. */
#include <stddef.h>
#include <string.h>

typedef struct {
    char bytes[8];
    size_t size;
} Result;

__thread long value = 40;
static __thread long zero;
static __thread char filler[5000];

/* 1041 for a thread's first call. */
long next(void) {
    filler[4999]++;
    zero++;
    return ++value + zero * 1000 + filler[4999] - 1;
}

Result call_next(const char *data, size_t size) {
    (void)data, (void)size;
    long result = next();
    Result answer = {{0}, sizeof result};
    memcpy(answer.bytes, &result, sizeof result);
    return answer;
}
