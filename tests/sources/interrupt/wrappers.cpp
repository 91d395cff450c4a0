// Wrapper functions that never return by themselves, each with a destructor, and one that asks the host, which calls another.
#include <cstdint>
#include <cstring>
#include <farcall/linked.h>
#include <time.h>

static volatile long counter, kept, begun, cleaned;

struct Cleanup {
    Cleanup() { begun = begun + 1; }
    ~Cleanup() { cleaned = cleaned + 1; }
};

static void loop() {
    for (;;) counter = counter + 1;
}

// The compiler does not know that it throws nothing.
static void (*volatile called)() = loop;

extern "C" farcall_result spin_bytes(const char *, size_t) {
    Cleanup cleanup;
    called();
    return farcall_result_of(nullptr, 0);
}

extern "C" farcall_result sleep_bytes(const char *, size_t) {
    Cleanup cleanup;
    for (;;) {
        timespec hour = {3600, 0};
        nanosleep(&hour, nullptr);
    }
}

// The same bytes.
extern "C" farcall_result same(const char *data, size_t size) { return farcall_result_of(data, size); }

// Asks the handler whose tag comes first, with the bytes behind it.
extern "C" farcall_result ask_bytes(const char *data, size_t size) {
    uint64_t tag;
    memcpy(&tag, data, sizeof tag);
    return farcall_call_controller(tag, data + sizeof tag, size - sizeof tag);
}

extern "C" long cleanups_begun() { return begun; }

extern "C" long cleanups_run() { return cleaned; }
extern "C" long count() { return kept = kept + 1; }
