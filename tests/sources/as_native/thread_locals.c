/* A thread-local with an initial value. */
static __thread int value = 5;

int exchange(int next) {
    int old = value;
    value = next;
    return old;
}
