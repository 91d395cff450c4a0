/* Wrapper functions for allocation actions. Each returns bytes: none, or the message of a failure. */
#include <string.h>

struct result {
    char *data;
    unsigned long bytes;
};

/* Adds its second word to the word at its first. */
struct result add(const unsigned long *words, unsigned long bytes) {
    *(unsigned long *)words[0] += words[1];
    return (struct result){0, bytes - bytes};
}

/* Fails with its argument as the message. */
struct result fails(const char *message, unsigned long bytes) { return (struct result){strdup(message), bytes - bytes}; }
