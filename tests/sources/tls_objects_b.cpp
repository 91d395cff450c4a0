// The other half of tls_objects_a.cpp.
#include <cstdio>
#include <string>

struct Noisy {
    std::string name;
    explicit Noisy(const char *name) : name(name) { std::printf("made %s\n", name); }
    ~Noisy() { std::printf("gone %s\n", name.c_str()); }
};

thread_local int counter = 2;
thread_local std::string from_b = std::string("b") + std::to_string(counter);
inline thread_local Noisy shared_inline("inline");

template <class T> struct Holder {
    static thread_local T value;
};
template <class T> thread_local T Holder<T>::value{41};

int next() { return ++counter; }

int more() {
    shared_inline.name += "!";
    return static_cast<int>(shared_inline.name.size()) * 100 + Holder<int>::value;
}
