/* Code that the programs model.c and model.cpp link into executors. VERSION is a number of each object. */
#include <stdlib.h>
#include <unistd.h>

#ifdef LATE
/* The member of an archive. */
long late(long number) { return 2 * number; }
#else
static int count;

/* Counts its calls, from 1. */
int next(void) { return ++count; }

/* Counts as next does, and does not return. */
void stay(void) {
    for (++count;;)
        ;
}

int version(void) { return VERSION; }

long add(long a, long b) { return a + b; }

int process_id(void) { return getpid(); }

/* Reads at an address: that of a pointer, or a crash. */
int at(const int *place) { return place == NULL ? 7 : *place; }

/* Code for fixed addresses has the address of the table in 4 bytes. */
static const int squares[8] = {0, 1, 4, 9, 16, 25, 36, 49};
int square(unsigned number) { return squares[number & 7]; }

/* Returns if number is 0. */
int hang(int number) {
    for (volatile int turn = number; turn != 0;)
        ;
    return 7;
}

void increment(long *row, long by) { *row += by; }

#ifdef CALLER
/* A function that another library defines. */
int step(void);
int through(void) { return step(); }
#endif

static int runs;

int main(int words, char **arguments) {
    (void)arguments;
    return words * 10 + ++runs;
}

/* A program's own start: it exits with 5. */
__asm__(".globl begin\n.type begin, @function\nbegin: mov $5, %edi\nmov $231, %eax\nsyscall\n");
#endif
