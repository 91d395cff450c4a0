// The other half of statics_a.cpp.
#include <cstdio>

struct Loud {
    const char *name;
    explicit Loud(const char *n) : name(n) { std::printf("+ %s\n", name); }
    ~Loud() { std::printf("- %s\n", name); }
};

static int computed(int x) {
    std::printf("computed\n");
    return x * 2;
}
static int value = computed(21);
Loud b_plain("b plain");
__attribute__((init_priority(250))) Loud b_250("b 250");

Loud &local_of_b() {
    static Loud local("local of b");
    return local;
}
int initialised_of_b() { return value; }
