/* Variables that the C library looks for in a program. */
#include <argp.h>
#include <stdio.h>

const char *argp_program_version = "hooks 1.2.3";
const char *argp_program_bug_address = "<nobody>";

int main(int count, char **arguments) {
    static const struct argp argp = {0};
    return argp_parse(&argp, count, arguments, 0, 0, 0);
}
