#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

struct Told {
    std::string name;
    explicit Told(std::string given) : name(std::move(given)) { std::cout << "make " << name << "\n"; }
    ~Told() { std::cout << "drop " << name << "\n"; }
};

static Told global("global");
static thread_local int counter = 10;

static int deep(int depth) {
    Told told("frame " + std::to_string(depth));
    if (depth == 0) throw std::runtime_error("deep");
    return deep(depth - 1) + 1;
}

int main() {
    std::map<std::string, size_t> places;
    for (const char *name : {"b", "a", "c"}) places.emplace(name, places.size());
    for (const auto &[name, place] : places) std::cout << name << "=" << place << std::endl;
    try {
        deep(3);
    } catch (const std::exception &error) {
        std::cout << "caught " << error.what() << std::endl;
    }
    int seen = 0;
    std::thread thread([&seen] { seen = ++counter; });
    thread.join();
    std::cout << "thread " << seen << " main " << counter << std::endl;
    try {
        std::cout << std::vector<int>(3).at(7);
    } catch (const std::out_of_range &) {
        std::cout << "range\n";
    }
    return 3;
}
