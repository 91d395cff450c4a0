// controller.c
#include "farcall.h"
#include <stdio.h>
#include <stdlib.h>

/* Ends the program if there is an error. */
static void must(farcall_error *error) {
    if (error != NULL) {
        fprintf(stderr, "controller: %s\n", farcall_error_message(error));
        exit(1);
    }
}

int main(void) {
    farcall_run_if_spawned(); /* the executor is this program, started again */
    farcall_start_options options = {.size = sizeof options, .this_program = true};
    farcall_controller *controller;
    must(farcall_controller_start(&options, &controller));

    farcall_dylib *dylib;
    uint64_t address;
    must(farcall_dylib_create(controller, "main", &dylib));
    must(farcall_dylib_add_object_file(dylib, NULL, "scale.o"));
    must(farcall_dylib_lookup(dylib, "scale", &address));

    farcall_function *scale;
    farcall_value arguments[] = {{FARCALL_I64, {.i64 = 3}}, {FARCALL_F64, {.f64 = 0.5}}}, result;
    must(farcall_function_create(controller, address, NULL, "double scale(long, double)", &scale));
    must(farcall_function_call(scale, arguments, 2, &result));
    printf("3 * 0.5 = %g\n", result.data.f64);

    must(farcall_controller_kill(controller));
    farcall_error *error = farcall_function_call(scale, arguments, 2, &result);
    printf("%s\n", farcall_error_message(error));
    farcall_error_consume(error);
    must(farcall_controller_close(controller));
    return 0;
}
