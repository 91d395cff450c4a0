// Exceptions that cross objects, with destructors on the way; see exceptions_b.cpp.
#include <cstdio>
#include <stdexcept>
#include <string>

struct Trace {
    const char *name;
    explicit Trace(const char *n) : name(n) {}
    ~Trace() { std::printf("unwound %s\n", name); }
};

struct Own : std::runtime_error {
    int code;
    Own(const std::string &what, int c) : std::runtime_error(what), code(c) {}
};

void through_b(void (*callback)(int), int argument);
int throws_in_b(int kind);

static void callback(int argument) {
    Trace trace("callback");
    if (argument == 1) throw Own("own exception", 17);
    if (argument == 2) throw 5;
    std::printf("callback returned\n");
}

int main() {
    for (int i = 0; i < 3; i++) {
        try {
            Trace trace("try block");
            through_b(callback, i);
        } catch (const Own &own) {
            std::printf("own %s %d\n", own.what(), own.code);
        } catch (int value) {
            std::printf("int %d\n", value);
        }
    }
    for (int kind = 0; kind < 4; kind++) {
        try {
            std::printf("returned %d\n", throws_in_b(kind));
        } catch (const std::out_of_range &e) {
            std::printf("out_of_range %s\n", e.what());
        } catch (const std::exception &e) {
            std::printf("exception %s\n", e.what());
        } catch (...) {
            std::printf("something else\n");
        }
    }
    try {
        try {
            throw std::string("inner");
        } catch (std::string &text) {
            text += " changed";
            throw;
        }
    } catch (const std::string &text) {
        std::printf("%s\n", text.c_str());
    }
    int caught = 0;
    for (int i = 0; i < 1000; i++) {
        try {
            throws_in_b(1);
        } catch (const std::exception &) {
            caught++;
        }
    }
    std::printf("caught %d\n", caught);
    return caught == 1000 ? 0 : 1;
}
