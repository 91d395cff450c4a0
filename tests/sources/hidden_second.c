/* A wrapper function that uses the hidden names of hidden_first.c. */
#include <stddef.h>
#define HIDDEN __attribute__((visibility("hidden")))

struct buffer { char bytes[8]; size_t size; };

extern HIDDEN int hidden_count;
HIDDEN int hidden_next(void);
extern HIDDEN __thread int hidden_of_thread;
/* Both have it, as they have a variable of an inline function, and it is one variable. */
HIDDEN __attribute__((weak)) int hidden_shared = 1;
int *first_shared(void);

struct buffer second(const char *data, size_t size) {
    struct buffer result = {{0}, 8};
    result.bytes[0] = hidden_next();
    result.bytes[1] = hidden_count;
    result.bytes[2] = hidden_of_thread;
    result.bytes[3] = &hidden_shared == first_shared();
    return result;
}
