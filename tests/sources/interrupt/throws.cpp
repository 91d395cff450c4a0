// A loop that throws exceptions, which count themselves.
static volatile long made, destroyed, kept;

struct Counted {
    Counted() { made = made + 1; }
    Counted(const Counted &) { made = made + 1; }
    ~Counted() { destroyed = destroyed + 1; }
};

extern "C" void throw_without_end() {
    for (;;) {
        try {
            throw Counted();
        } catch (const Counted &) {
        }
    }
}

extern "C" long alive() { return made - destroyed; }

extern "C" long thrown() { return made; }

extern "C" long count() { return kept = kept + 1; }
