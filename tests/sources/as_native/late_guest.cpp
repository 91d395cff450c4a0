// A library that a program opens late, with constructors that use the program.
#include <cstdlib>
#include <cstring>

extern "C" void host_log(const char *text, int number);
extern "C" int host_number;

static char *kept;

__attribute__((constructor)) static void begin() {
    kept = strdup("a text of the constructor");
    host_log("constructor", host_number);
}

__attribute__((destructor)) static void end() {
    free(kept);
    host_log("destructor", host_number);
}

extern "C" char *guest_take() {
    char *text = kept;
    kept = nullptr;
    return text;
}

extern "C" __attribute__((weak)) int both() { return 1; }
extern "C" int guest_both() { return both(); }
