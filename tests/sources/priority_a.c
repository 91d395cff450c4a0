/* Constructor priorities hold across objects; see priority_b.c. */
#include <stdio.h>

void note(const char *what);

__attribute__((constructor(101))) static void a101(void) { note("a 101"); }
__attribute__((constructor(300))) static void a300(void) { note("a 300"); }
__attribute__((constructor)) static void a_default(void) { note("a default"); }
__attribute__((destructor(101))) static void end_a101(void) { puts("end a 101"); }
__attribute__((destructor(300))) static void end_a300(void) { puts("end a 300"); }
__attribute__((destructor)) static void end_a_default(void) { puts("end a default"); }

extern int notes;

int main(void) {
    printf("main after %d notes\n", notes);
    return notes;
}
