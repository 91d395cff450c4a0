// A library that needs names of the program, and uses variables of a common header in its constructors.
#include "guest.h"

#include <cstring>
#include <string>

__attribute__((constructor)) static void begin(int count, char **arguments, char **) {
    host_log("constructor with arguments", count);
    host_log(arguments[count - 1], host_level);
    registry().entries[registry().count++] = 41;
}

static struct AtStart {
    AtStart() {
        registered = 7;
        registry().entries[registry().count++] = 42;
        delete new int(3);
    }
    ~AtStart() { host_log("destructor", registered); }
} at_start;

extern "C" int guest_registered() { return registered; }
extern "C" int *guest_registered_at() { return &registered; }
extern "C" Registry *guest_registry() { return &registry(); }
extern "C" int *guest_block() { return new int(5); }
extern "C" size_t guest_text(int count) {
    std::string text;
    for (int number = 0; number < count; number++)
        text += "a piece of text ";
    return text.size();
}
__attribute__((weak)) int both() { return 1; }
extern "C" int guest_both() { return both(); }
