// The other half of templates_a.cpp.
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

int next_of_b() { return Counter<int>::next(10); }
int *variable_of_b() { return &shared_variable; }
int *inside_of_b() { return shared_function(); }
