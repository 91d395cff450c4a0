/* The other half of priority_a.c: priorities between and equal to those of the first object. */
#include <stdio.h>

int notes;

void note(const char *what) {
    notes++;
    puts(what);
}

__attribute__((constructor)) static void b_default(void) { note("b default"); }
__attribute__((constructor(300))) static void b300(void) { note("b 300"); }
__attribute__((constructor(200))) static void b200(void) { note("b 200"); }
__attribute__((constructor(65535))) static void b_last(void) { note("b 65535"); }
__attribute__((destructor(200))) static void end_b200(void) { puts("end b 200"); }
__attribute__((destructor)) static void end_b_default(void) { puts("end b default"); }
