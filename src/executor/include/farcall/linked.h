/* farcall/linked.h: for code that farcall links into an executor. C11, C++11 or later.

   A handler that the controller has defined by name is an ordinary C function: declare it and call it. This header is for
   functions that take and return bytes.

   Results: up to 8 bytes lie in the result itself, more in memory from malloc. A failure is a result of size 0 with a message.
   Ownership: farcall frees the results of wrapper functions. The result of farcall_call_controller belongs to the code that
   called: it frees the result with farcall_result_free, or returns it from a wrapper function.
   Threads: any thread may call the controller. Signal handlers and forked children may not. */
#ifndef FARCALL_LINKED_H
#define FARCALL_LINKED_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a wrapper function returns. Size 0 with a null pointer is an empty result, with another pointer a failure. */
struct farcall_result {
    union {
        char *pointer; /* more than 8 bytes, or the message of a failure, which ends with NUL; from malloc */
        char bytes[8]; /* up to 8 bytes */
    };
    size_t size;
};

/* A wrapper function: the controller calls it with `size` bytes at `data`, which stay there until it returns. */
typedef struct farcall_result farcall_wrapper(const char *data, size_t size);

/* Calls the controller's handler with this tag and `size` bytes, and waits for its result. A failure of the handler, and one of
   the session, is a failure of the result. */
struct farcall_result farcall_call_controller(uint64_t tag, const char *data, size_t size);

/* A result with a copy of `size` bytes. Ends the process if memory runs out. */
static inline struct farcall_result farcall_result_of(const void *data, size_t size) {
    struct farcall_result result;
    char *to = result.bytes;
    result.pointer = NULL;
    result.size = size;
    if (size > sizeof result.bytes) {
        to = (char *)malloc(size);
        if (to == NULL) abort();
        result.pointer = to;
    }
    if (size > 0) memcpy(to, data, size);
    return result;
}

/* A failure with a copy of this message. Ends the process if memory runs out. */
static inline struct farcall_result farcall_result_failure(const char *message) {
    struct farcall_result result;
    size_t size = strlen(message) + 1;
    result.pointer = (char *)malloc(size);
    if (result.pointer == NULL) abort();
    memcpy(result.pointer, message, size);
    result.size = 0;
    return result;
}

/* The message of a failure; null for any other result. */
static inline const char *farcall_result_message(const struct farcall_result *result) {
    return result->size == 0 ? result->pointer : NULL;
}

/* The bytes of a result, of which there are `size`. They move with a result of up to 8 bytes. */
static inline const char *farcall_result_data(const struct farcall_result *result) {
    return result->size > sizeof result->bytes ? result->pointer : result->bytes;
}

/* Frees what the result points to, and leaves it empty. */
static inline void farcall_result_free(struct farcall_result *result) {
    if (result->size == 0 || result->size > sizeof result->bytes) free(result->pointer);
    result->pointer = NULL;
    result->size = 0;
}

#ifdef __cplusplus
}
#endif

#endif
