// The other half of program.cpp.
#include "program.h"

Shape *make_other(int side) { return new Square(side); }
int apply(int (Shape::*method)() const, const Shape &shape) { return (shape.*method)(); }

static Started there("there");

int *of_shared() {
    static int number;
    shared_number *= 3;
    Limits<long>::most *= 2;
    number = counter();
    return &number;
}
int weak_of_both() { return 3; }
__attribute__((weak)) int weak_data = 4;

void through_other(void (*callback)()) {
    Started in_frame("frame");
    callback();
}

thread_local Noisy of_other;
thread_local int computed_local = counter();

static int plus(int x) { return x + 30; }
extern "C" void *choose_other() { return reinterpret_cast<void *>(plus); }
extern "C" int choice_of_other(int x) __attribute__((ifunc("choose_other")));
