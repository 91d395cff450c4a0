/* The name of the process in the kernel. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>

int main(void) {
    char name[64] = "";
    FILE *file = fopen("/proc/self/comm", "r");
    if (!file || !fgets(name, sizeof name, file))
        return 1;
    name[strcspn(name, "\n")] = 0;
    printf("%s\n", strncmp(name, program_invocation_short_name, 15) == 0 ? "the program's" : name);
    return 0;
}
