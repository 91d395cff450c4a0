// thread_local objects with constructors and destructors, of two translation units, of templates and of functions, in
// the first thread and in others; they are destroyed before the objects with static storage.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>

struct Noisy {
    std::string name;
    explicit Noisy(const char *name) : name(name) { std::printf("made %s\n", name); }
    ~Noisy() { std::printf("gone %s\n", name.c_str()); }
};

extern thread_local int counter;
extern thread_local std::string from_b;
int next();

static Noisy static_object("static object");
static thread_local Noisy first("first");
thread_local std::unique_ptr<Noisy> pointer;
inline thread_local Noisy shared_inline("inline");
thread_local int computed = next() * 10;

template <class T> struct Holder {
    static thread_local T value;
};
template <class T> thread_local T Holder<T>::value{41};

static void in_function() {
    thread_local Noisy local("in a function");
    thread_local int calls;
    std::printf("%s, call %d\n", local.name.c_str(), ++calls);
}

int more(); // of the other object: the inline variable and the template again

static void work(const char *who) {
    std::printf("-- %s\n", who);
    first.name += who;
    pointer = std::make_unique<Noisy>("behind a pointer");
    in_function();
    in_function();
    Holder<int>::value++;
    Holder<long>::value += 2;
    std::printf("%d %d %d %ld %s %d\n", more(), counter, Holder<int>::value, Holder<long>::value, from_b.c_str(), computed);
    try {
        thread_local Noisy thrown_by("that throws");
        throw std::string("an exception from ") + thrown_by.name;
    } catch (std::string &what) {
        std::printf("%s\n", what.c_str());
    }
    struct AtEnd {
        ~AtEnd() { std::printf("end of %s, counter %d\n", first.name.c_str(), counter); }
    };
    thread_local AtEnd at_end;
    (void)&at_end;
}

int main() {
    std::atexit([] { std::puts("exit handler"); });
    work("main");
    for (const char *who : {"one", "two"}) std::thread(work, who).join();
    in_function();
    std::printf("%d\n", counter);
    return 3;
}
