/* Ends before main, in a constructor, or after it, in a destructor, as its first argument says. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int crash_in_destructor;
static int volatile *volatile nowhere = (int *)0xdadbeef;

__attribute__((constructor)) static void before_main(int argc, char **argv) {
    printf("constructor with %d arguments\n", argc);
    fflush(stdout);
    if (argc < 2) return;
    if (!strcmp(argv[1], "exit")) exit(8);
    if (!strcmp(argv[1], "constructor")) *nowhere = 1;
    crash_in_destructor = !strcmp(argv[1], "destructor");
}
__attribute__((destructor)) static void after_main(void) {
    puts("destructor");
    fflush(stdout);
    if (crash_in_destructor) *nowhere = 2;
}

int main(void) {
    puts("main");
    return 1;
}
