/* The C library of a program with its own allocator (allocator.c). */
#define _GNU_SOURCE
#include <dirent.h>
#include <execinfo.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

extern atomic_int allocator_calls;

static void *thread(void *argument) {
    char *copy = strdup(argument);
    free(copy);
    return strdup("from a thread");
}

int main(void) {
    int before = allocator_calls;
    char *copy = strdup("a string of the C library");
    printf("the C library calls malloc here: %d\n", allocator_calls > before);
    free(copy);
    for (int round = 0; round < 100; round++) {
        char *line = NULL, *text;
        size_t room = 0;
        FILE *file = fopen("/proc/self/status", "r");
        if (!file || getline(&line, &room, file) < 0)
            return 1;
        fclose(file);
        free(line);
        if (asprintf(&text, "%d words", round) < 0)
            return 1;
        free(text);
        char name[20];
        snprintf(name, sizeof name, "NAME_%d", round);
        setenv(name, "value", 1);
        unsetenv(name);
        DIR *folder = opendir("/");
        if (!folder || !readdir(folder))
            return 1;
        closedir(folder);
        pthread_t other;
        void *result;
        pthread_create(&other, NULL, thread, "a text");
        pthread_join(other, &result);
        free(result);
    }
    tzset();
    time_t now = 0;
    char *path = realpath("/proc/..", NULL);
    printf("%d %s\n", gmtime(&now)->tm_year, path);
    free(path);
    char *cwd = getcwd(NULL, 0);
    free(cwd);
    char stream[64];
    FILE *memory = fmemopen(stream, sizeof stream, "w");
    setvbuf(memory, NULL, _IOFBF, 1 << 20);
    fprintf(memory, "text");
    fclose(memory);
    printf("stream: %s\n", stream);
    void *address = (void *)main;
    char **symbols = backtrace_symbols(&address, 1);
    printf("symbols: %d\n", symbols != NULL);
    free(symbols);
    return 0;
}
