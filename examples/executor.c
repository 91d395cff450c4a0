// executor.c
#include "farcall.h"
#include <stdio.h>
#include <stdlib.h>

/* Ends the program if there is an error. */
static void must(farcall_error *error) {
    if (error != NULL) {
        fprintf(stderr, "executor: %s\n", farcall_error_message(error));
        exit(1);
    }
}

int main(void) {
    farcall_run_if_spawned(); /* the executor is this program, started again */
    farcall_executor_options options = {.size = sizeof options, .this_program = true, .restart.restarts = true};
    farcall_executor *executor;
    must(farcall_executor_start(&options, &executor));

    farcall_library *library;
    farcall_function *scale, *crash;
    must(farcall_library_create(executor, "main", &library));
    must(farcall_library_add_object_file(library, "scale.o"));
    must(farcall_library_function(library, NULL, NULL, "double scale(long, double)", &scale));
    must(farcall_library_function(library, NULL, NULL, "double crash(void)", &crash));

    farcall_error *error = farcall_function_call(crash, NULL, 0, NULL);
    printf("%s\n", farcall_error_message(error));
    farcall_error_consume(error);

    farcall_value arguments[] = {{FARCALL_I64, {.i64 = 3}}, {FARCALL_F64, {.f64 = 0.5}}}, result;
    must(farcall_function_call(scale, arguments, 2, &result));
    printf("3 * 0.5 = %g in the next executor\n", result.data.f64);
    must(farcall_executor_close(executor));
    return 0;
}
