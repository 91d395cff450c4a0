// Virtual calls, virtual and multiple inheritance, dynamic_cast and typeid, pointers to members.
#include <cstdio>
#include <cstring>
#include <typeinfo>

struct Shape {
    virtual ~Shape() { std::printf("~Shape\n"); }
    virtual double area() const = 0;
    virtual const char *name() const { return "shape"; }
};
struct Named {
    virtual ~Named() = default;
    virtual int letters() const { return 0; }
};
struct Square : Shape, Named {
    double side;
    explicit Square(double s) : side(s) {}
    ~Square() override { std::printf("~Square %g\n", side); }
    double area() const override { return side * side; }
    const char *name() const override { return "square"; }
    int letters() const override { return 6; }
};
struct Circle : Shape {
    double radius = 2;
    double area() const override { return 3.0 * radius * radius; }
};
struct Base { virtual ~Base() = default; int value = 1; virtual int get() { return value; } };
struct Left : virtual Base { int get() override { return value + 10; } };
struct Right : virtual Base { int right = 5; };
struct Bottom : Left, Right { int get() override { return Left::get() + right; } };

__attribute__((noinline)) static void look(const Shape *shape) {
    std::printf("%s %g\n", shape->name(), shape->area());
    const Named *named = dynamic_cast<const Named *>(shape);
    std::printf("named %d, letters %d\n", named != nullptr, named ? named->letters() : -1);
    std::printf("type %s, square %d\n", typeid(*shape).name(), typeid(*shape) == typeid(Square));
}

int main() {
    Shape *shapes[] = {new Square(3), new Circle};
    for (Shape *shape : shapes) look(shape);
    Bottom bottom;
    Base *base = &bottom;
    std::printf("bottom %d, right %d\n", base->get(), dynamic_cast<Right *>(base)->right);
    try {
        (void)dynamic_cast<Square &>(*shapes[1]);
    } catch (const std::bad_cast &) {
        std::printf("bad_cast\n");
    }
    double (Shape::*area)() const = &Shape::area;
    std::printf("by member pointer %g\n", (shapes[0]->*area)());
    for (Shape *shape : shapes) delete shape;
    return 0;
}
