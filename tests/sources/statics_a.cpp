// Static constructors and destructors in two objects, their priorities, function-local statics, and their
// order against atexit; see statics_b.cpp.
#include <cstdio>
#include <cstdlib>

struct Loud {
    const char *name;
    explicit Loud(const char *n) : name(n) { std::printf("+ %s\n", name); }
    ~Loud() { std::printf("- %s\n", name); }
};

Loud a_plain("a plain");
__attribute__((init_priority(300))) Loud a_300("a 300");
__attribute__((init_priority(200))) Loud a_200("a 200");

Loud &local_of_b();
int initialised_of_b();

static void at_exit() { std::printf("atexit handler\n"); }

int main() {
    std::printf("main\n");
    static Loud in_main("static in main");
    std::atexit(at_exit);
    local_of_b();
    Loud &same = local_of_b();
    std::printf("%s, %d\n", same.name, initialised_of_b());
    return 3;
}
