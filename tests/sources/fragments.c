// Says in which order the fragments of _init and _fini run, and that each finds the stack aligned.
#include <stdint.h>
#include <stdio.h>

void say(const char *what) {
    uintptr_t frame = (uintptr_t)__builtin_frame_address(0);
    printf("%s, frame at %d modulo 16\n", what, (int)(frame % 16));
    fflush(stdout);
}

void at_start(void) { say("first fragment of _init"); }
void at_end(void) { say("first fragment of _fini"); }

static void early(void) { say("before all initializers"); }
__attribute__((section(".preinit_array"), used)) static void (*const earliest)(void) = early;

__attribute__((constructor(101))) static void first(void) { say("constructor"); }
__attribute__((constructor)) static void last(void) { say("last constructor"); }
__attribute__((destructor)) static void end(void) { say("destructor"); }

extern void (*const __preinit_array_start[])(void), (*const __preinit_array_end[])(void);

asm(".section .init,\"ax\"\n"
    "call at_start@PLT\n"
    ".section .fini,\"ax\"\n"
    "call at_end@PLT\n"
    ".text");

int main(void) {
    printf("%d before all\n", (int)(__preinit_array_end - __preinit_array_start));
    return 0;
}
