/* A library with two constructors, which tell the program that they run. */
void construct(int number);

__attribute__((constructor(200))) static void first(void) { construct(NUMBER); }
__attribute__((constructor(201))) static void second(void) { construct(NUMBER + 1); }
