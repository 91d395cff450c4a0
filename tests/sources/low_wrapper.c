/* Wrapper functions whose code holds addresses in 32 bits (compile with -fno-pic). */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

struct buffer { char bytes[8]; size_t size; };

static unsigned long counter;

/* The address of `counter`, which is incremented. */
struct buffer low_count(const char *data, size_t size) {
    unsigned long *at = &counter;
    __asm__("" : "+r"(at));
    ++*at;
    struct buffer result = {{0}, 8};
    memcpy(result.bytes, &at, 8);
    return result;
}

/* The address at which the C library's stdout is known here. */
struct buffer low_stdout(const char *data, size_t size) {
    FILE **at = &stdout;
    __asm__("" : "+r"(at));
    struct buffer result = {{0}, 8};
    memcpy(result.bytes, &at, 8);
    return result;
}
