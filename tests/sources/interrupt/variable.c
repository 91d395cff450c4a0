/* A program that interrupts a call again and again, and finds a variable of the linked code as it was.
 *
 *     variable OBJECT TIMES    an object of loops.c */
#define _GNU_SOURCE
#include "../checked.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Long enough for a busy machine. */
#define GRACE_NS 20000000000

/* A pause between two requests, in microseconds. */
#define PAUSE_US 200

static farcall_executor *executor;
static farcall_function *spin;
static atomic_int is_over;

/* The number that a function returns. A request that is still on its way ends a call or two. */
static long number_of(farcall_function *function) {
    farcall_value result;
    farcall_error *late;
    while ((late = farcall_function_call(function, NULL, 0, &result)) != NULL)
        FAILS(late, FARCALL_INTERRUPTED);
    return result.data.i64;
}

/* Ends whatever runs, until it is told to stop. */
static void *interrupt(void *nothing) {
    while (!atomic_load(&is_over)) {
        MUST(farcall_executor_interrupt_all(executor, GRACE_NS));
        usleep(PAUSE_US);
    }
    return nothing;
}

int main(int words, char **arguments) {
    farcall_run_if_spawned();
    CHECK(words == 3);
    long times = atol(arguments[2]);
    farcall_executor_options options = {.size = sizeof options, .this_program = true};
    MUST(farcall_executor_start(&options, &executor));
    farcall_library *library = NULL;
    MUST(farcall_library_create(executor, "main", &library));
    MUST(farcall_library_add_object_file(library, arguments[1]));
    spin = function_of(library, "void spin(void)");
    farcall_function *count = function_of(library, "long count(void)"), *counted = function_of(library, "long counted(void)");
    for (long number = 1; number <= 42; number++)
        CHECK(number_of(count) == number);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, interrupt, NULL) == 0);
    for (long time = 0; time < times; time++)
        FAILS(farcall_function_call(spin, NULL, 0, NULL), FARCALL_INTERRUPTED);
    atomic_store(&is_over, 1);
    pthread_join(thread, NULL);
    CHECK(number_of(counted) == 42);
    MUST(farcall_executor_close(executor));
    printf("%ld interrupts\n", times);
    return 0;
}
