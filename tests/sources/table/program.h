// What the two halves of program.cpp share.
#include <cstdio>

struct Shape {
    virtual ~Shape() {}
    virtual int area() const = 0;
};
struct Square : Shape {
    int side;
    explicit Square(int side) : side(side) {}
    int area() const override { return side * side; }
};

struct Started {
    const char *name;
    explicit Started(const char *name);
    ~Started();
};

struct Failure {
    int code;
    virtual ~Failure() {}
};

inline int &counter() {
    static int count = 100;
    return ++count;
}
inline int shared_number = 7;
template <class T> struct Limits {
    static T most;
};
template <class T> T Limits<T>::most = T(99);

// thread_locals with constructors and destructors.
struct Noisy {
    int number;
    Noisy();
    ~Noisy();
};
extern thread_local Noisy of_other;
extern thread_local int computed_local;
inline thread_local int shared_local = 5;
