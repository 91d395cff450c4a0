// The standard library as programs use it: streams, containers, algorithms, closures, smart pointers.
#include <algorithm>
#include <functional>
#include <iomanip>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

struct Noisy {
    int id;
    explicit Noisy(int i) : id(i) {}
    ~Noisy() { std::cout << "gone " << id << "\n"; }
};

int main(int argc, char **argv) {
    std::map<std::string, std::vector<int>> index;
    std::string word;
    for (int line = 1; std::cin >> word; line++) index[word].push_back(line);
    for (const auto &[key, lines] : index) {
        std::cout << std::setw(8) << key << ":";
        for (int line : lines) std::cout << " " << line;
        std::cout << "\n";
    }
    std::vector<std::string> arguments(argv + 1, argv + argc);
    std::sort(arguments.begin(), arguments.end(), std::greater<>());
    for (const auto &argument : arguments) std::cout << "[" << argument << "] ";
    std::vector<std::function<int(int)>> steps;
    for (int i = 1; i <= 3; i++) steps.push_back([i](int x) { return x * i + 1; });
    int value = std::accumulate(steps.begin(), steps.end(), 5, [](int x, auto &step) { return step(x); });
    std::ostringstream text;
    text << std::hex << value << " " << std::fixed << std::setprecision(3) << 2.0 / 3;
    std::cout << "\n" << text.str() << std::endl;
    auto shared = std::make_shared<Noisy>(1);
    std::weak_ptr<Noisy> weak = shared;
    shared.reset();
    std::cout << "expired " << weak.expired() << "\n";
    auto unique = std::make_unique<Noisy>(2);
    std::cerr << "to stderr " << unique->id << std::endl;
    return static_cast<int>(index.size());
}
