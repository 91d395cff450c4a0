// Functions that catch everything, while an interrupt unwinds them.
static volatile long counter, caught, kept;

static __attribute__((noipa)) void spin() {
    for (;;) counter = counter + 1;
}

/// A compiler that sees the function leaves out what runs for its exceptions.
static void (*volatile loop)() = spin;

/// Catches whatever comes, and goes on.
extern "C" void swallow() {
    for (;;) {
        try {
            loop();
        } catch (...) {
            caught = caught + 1;
        }
    }
}

/// Puts its things in order, and passes on what it has caught.
extern "C" void pass_on() {
    try {
        loop();
    } catch (...) {
        caught = caught + 1;
        throw;
    }
}

static void refuses() noexcept { loop(); }

/// Calls a function that must not be left by an exception.
extern "C" void refuse() {
    void (*volatile function)() = refuses;
    function();
    caught = caught + 1;
}

extern "C" long catches() { return caught; }

extern "C" long count() { return kept = kept + 1; }
