// The names by which a program knows itself.
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>

int main(int argc, char **argv) {
    (void)argc;
    printf("%s, %s, %s\n", argv[0], program_invocation_name, program_invocation_short_name);
    return 0;
}
