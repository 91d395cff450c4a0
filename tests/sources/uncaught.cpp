// An exception that nobody catches.
#include <stdexcept>

__attribute__((noinline)) void throw_it() { throw std::runtime_error("nobody catches this"); }

int main() {
    throw_it();
    return 0;
}
