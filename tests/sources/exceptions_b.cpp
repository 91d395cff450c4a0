// The other half of exceptions_a.cpp.
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

struct Local {
    ~Local() { std::printf("unwound a local of b\n"); }
};

void through_b(void (*callback)(int), int argument) {
    Local local;
    callback(argument);
    std::printf("b carried on\n");
}

int throws_in_b(int kind) {
    std::vector<int> values(3, kind);
    switch (kind) {
    case 0: return values.at(2);
    case 1: return values.at(3);
    case 2: throw std::logic_error("thrown in " + std::string("b"));
    default: throw 1.5;
    }
}
