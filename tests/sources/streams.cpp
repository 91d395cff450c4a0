// Objects that belong to the C++ library: its streams, its exceptions and their types, used from both sides.
#include <cstdio>
#include <iomanip>
#include <iostream>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string>
#include <typeinfo>
#include <vector>

struct Shape {
    virtual ~Shape() = default;
    virtual const char *name() const = 0;
};
struct Circle : Shape {
    const char *name() const override { return "circle"; }
};
struct Square : virtual Shape {
    const char *name() const override { return "square"; }
};

struct Mine : std::runtime_error {
    using std::runtime_error::runtime_error;
};

static void throws(int what) {
    switch (what) {
    case 0: throw std::runtime_error("runtime");
    case 1: std::vector<int>().at(3); break;
    case 2: throw Mine("mine");
    case 3: throw 7;
    case 4: std::stoi("no number"); break;
    default: std::string().substr(5);
    }
}

static int index = std::ios_base::xalloc();

int main() {
    std::cout << "before " << std::setprecision(3) << 3.14159 << std::endl;
    std::ios_base::sync_with_stdio(false);
    std::cout << "still three digits: " << 2.71828 << '\n';
    for (int i = 0; i < 20; i++) std::cout.iword(index + i) = i * i;
    std::cout << "words " << std::cout.iword(index + 3) << ' ' << std::cout.iword(index + 19) << '\n';
    std::cout << "tied " << (std::cin.tie() == &std::cout) << (std::cerr.tie() == &std::cout) << '\n';
    std::cerr << "to the other stream\n";
    std::clog << "and once more" << std::endl;
    std::string word;
    int sum = 0;
    while (std::cin >> word) sum += static_cast<int>(word.size());
    std::cout << "read " << sum << " eof " << std::cin.eof() << " fail " << std::cin.fail() << '\n';
    std::ostringstream redirected;
    std::streambuf *old = std::cout.rdbuf(redirected.rdbuf());
    std::cout << "inside";
    std::cout.rdbuf(old);
    std::cout << "redirected: " << redirected.str() << '\n';
    for (int what = 0; what < 6; what++) {
        try {
            throws(what);
        } catch (const Mine &error) {
            std::cout << "mine " << error.what() << '\n';
        } catch (const std::logic_error &error) {
            std::cout << "logic " << (typeid(error) == typeid(std::out_of_range)) << '\n';
        } catch (const std::exception &error) {
            std::cout << "other " << error.what() << ' ' << (typeid(error) == typeid(std::runtime_error)) << '\n';
        } catch (int number) {
            std::cout << "number " << number << '\n';
        }
    }
    const Shape *shapes[] = {new Circle, new Square};
    for (const Shape *shape : shapes) {
        const char *kind = dynamic_cast<const Circle *>(shape) ? "a circle" : "no circle";
        std::cout << shape->name() << " is " << kind << ' ' << typeid(*shape).name() << '\n';
        delete shape;
    }
    char *memory = new (std::nothrow) char[16];
    std::snprintf(memory, 16, "%s", "allocated");
    std::cout << memory << std::endl;
    delete[] memory;
    return std::cout.good() ? 17 : 1;
}
