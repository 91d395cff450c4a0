/* A library that needs a function which only a program has. */
int only_in_the_program(void);

int GUEST(void) { return only_in_the_program(); }
