// The same templates, inline functions and inline variables in two objects are one; see templates_b.cpp.
#include <cstdio>

template <typename T> struct Counter {
    static int count;
    static int next(int by) {
        static int calls = 0;
        return count += by * ++calls;
    }
};
template <typename T> int Counter<T>::count = 100;
inline int shared_variable = 7;
inline int *shared_function() {
    static int inside = 1;
    return &inside;
}

int next_of_b();
int *variable_of_b();
int *inside_of_b();

int main() {
    std::printf("%d\n", Counter<int>::next(1));
    std::printf("%d\n", next_of_b());
    std::printf("%d\n", Counter<int>::next(1));
    std::printf("%d\n", Counter<char>::next(5));
    std::printf("one variable %d\n", variable_of_b() == &shared_variable);
    std::printf("one static %d\n", inside_of_b() == shared_function());
    *variable_of_b() = 70;
    std::printf("variable %d\n", shared_variable);
    return 0;
}
