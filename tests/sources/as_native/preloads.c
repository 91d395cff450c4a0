/* Calls a function that a preloaded library replaces, and mixes memory of this program and of the C library. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(void) {
    printf("%d\n", getppid() == 4711);
    for (int round = 0; round < 1000; round++) {
        char *copy = strdup("a string of the C library");
        copy = realloc(copy, 100 + round);
        strcat(copy, ", enlarged");
        free(copy);
        char *line = malloc(10);
        size_t room = 10;
        FILE *file = fmemopen("some words in a line that is longer than ten bytes\n", 51, "r");
        if (getline(&line, &room, file) < 0)
            return 1;
        fclose(file);
        free(line);
    }
    puts("done");
    return 0;
}
