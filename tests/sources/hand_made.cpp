// The functions around one whose machine code a test has made by hand: outer calls middle, which calls inner.
#include <cstring>
#include <dlfcn.h>
#include <execinfo.h>
#include <stdexcept>

extern "C" long middle(long value);
extern "C" long outer(long value);

static bool is_in(void *address, const char *function) {
    Dl_info info;
    // A return address may already be in the next function.
    const char *found = dladdr(static_cast<char *>(address) - 1, &info) ? info.dli_sname : nullptr;
    return found && !strcmp(found, function);
}

/// Throws for values below zero, crashes for 7, and otherwise says whether its callers are middle and outer.
extern "C" __attribute__((noinline)) long inner(long value) {
    if (value < 0) throw std::runtime_error("below zero");
    if (value == 7) return *(volatile long *)8;
    void *frames[32];
    int count = backtrace(frames, 32);
    for (int at = 0; at + 2 < count; at++)
        if (is_in(frames[at], "inner")) return is_in(frames[at + 1], "middle") && is_in(frames[at + 2], "outer");
    return 0;
}

/// Keeps values in the registers that middle changes, and says their sum when inner has thrown.
extern "C" __attribute__((noinline)) long outer(long value) {
    volatile long source = value;
    long a = source * 2, b = source * 3, c = source * 5, d = source * 7, e = source * 11;
    try {
        long known = middle(value);
        return known + (a + b + c + d + e == 28 * source ? 0 : 100);
    } catch (const std::runtime_error &error) {
        return strcmp(error.what(), "below zero") ? 0 : a + b + c + d + e;
    }
}
