/* What a first program has: stdio, a jump table, a constructor and a destructor, libm, arguments, the
   environment, and an exit status of its own. Data of libc (stdout, environ) is named directly. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

static int constructed;

__attribute__((constructor)) static void before_main(void) {
    constructed = 1;
    fprintf(stdout, "constructor\n");
}

__attribute__((destructor)) static void after_main(void) {
    fprintf(stdout, "destructor\n");
    fflush(stdout);
}

__attribute__((noinline)) static const char *weekday(int day) {
    switch (day) {
    case 0: return "sunday";
    case 1: return "monday";
    case 2: return "tuesday";
    case 3: return "wednesday";
    case 4: return "thursday";
    case 5: return "friday";
    case 6: return "saturday";
    default: return "no day";
    }
}

int main(int argc, char **argv) {
    FILE *copy = stdout;
    fprintf(copy, "hello, constructed=%d, argc=%d\n", constructed, argc);
    for (int i = 1; i < argc; i++) fprintf(stdout, "argument %d: [%s]\n", i, argv[i]);
    printf("argv ends with null: %d\n", argv[argc] == NULL);
    for (int i = 0; i < argc + 6; i++) printf("%s ", weekday(i));
    double x = 1.0 + argc;
    printf("\nsin %.12f pow %.12f sqrt %.12f\n", sin(x), pow(x, 2.5), sqrt(x));
    const char *word = getenv("CORPUS_WORD");
    printf("environment: %s\n", word ? word : "(none)");
    int seen = 0;
    for (char **entry = environ; *entry; entry++) seen += !strncmp(*entry, "CORPUS_WORD=", 12);
    printf("seen in environ: %d\n", seen);
    fprintf(stderr, "a line on stderr\n");
    return 42;
}
