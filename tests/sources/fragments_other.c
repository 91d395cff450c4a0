// A second fragment of _init, with another alignment, and a second fragment of _fini.
void say(const char *what);

void other_start(void) { say("second fragment of _init"); }
void other_end(void) { say("second fragment of _fini"); }

asm(".section .init,\"ax\"\n"
    ".balign 32\n"
    "call other_start@PLT\n"
    ".section .fini,\"ax\"\n"
    "call other_end@PLT\n"
    ".text");
