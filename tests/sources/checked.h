/* Checks of programs in C over farcall.h. A program that fails one says where, and exits with status 1. */
#ifndef CHECKED_H
#define CHECKED_H

#include "farcall.h"

#include <stdio.h>
#include <stdlib.h>

#define CHECK(what) \
    do { \
        if (!(what)) { \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what); \
            exit(1); \
        } \
    } while (0)

#define MUST(call) must((call), #call, __FILE__, __LINE__)
#define FAILS(call, code) fails((call), (code), #call, __FILE__, __LINE__)

static void must(farcall_error *error, const char *call, const char *file, int line) {
    if (error != NULL) {
        fprintf(stderr, "%s:%d: %s: %s\n", file, line, call, farcall_error_message(error));
        exit(1);
    }
}

/* The message of an error with this code, until the next call. */
static const char *fails(farcall_error *error, farcall_error_code code, const char *call, const char *file, int line) {
    static char message[4096];
    if (farcall_error_code_of(error) != code) {
        fprintf(stderr, "%s:%d: %s: code %d: %s\n", file, line, call, (int)farcall_error_code_of(error),
                farcall_error_message(error));
        exit(1);
    }
    char *text = farcall_error_to_string(error);
    snprintf(message, sizeof message, "%s", text);
    farcall_text_free(text);
    return message;
}

/* A function of a library, by its prototype. Some programs need none. */
static inline farcall_function *function_of(farcall_library *library, const char *prototype) {
    farcall_function *function = NULL;
    MUST(farcall_library_function(library, NULL, NULL, prototype, &function));
    return function;
}

#endif
