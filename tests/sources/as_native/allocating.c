/* Much of the C library that allocates, with whatever allocator is linked in. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

void streams(void);

static void *work(void *argument) {
    for (int round = 0; round < 1000; round++) {
        char *text, *copy;
        if (asprintf(&text, "%d %*d", round, round % 300, round) < 0)
            abort();
        copy = strdup(text);
        free(text);
        copy = realloc(copy, strlen(copy) + 1000);
        free(copy);
    }
    return strdup(argument);
}

static long count_lines(const char *path) {
    char *line = NULL;
    size_t room = 0;
    long count = 0;
    FILE *file = fopen(path, "r");
    while (file && getline(&line, &room, file) > 0)
        count++;
    free(line);
    fclose(file);
    return count;
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    pthread_t threads[8];
    for (int number = 0; number < 8; number++)
        pthread_create(threads + number, NULL, work, "a text");
    for (int number = 0; number < 8; number++) {
        void *text;
        pthread_join(threads[number], &text);
        free(text);
    }
    printf("math: %d\n", dlopen("libm.so.6", RTLD_NOW) != NULL);
    printf("missing: %d, %d\n", dlopen("not_there.so", RTLD_NOW) != NULL, dlerror() != NULL);
    char *path = realpath("/proc/..", NULL);
    puts(path);
    free(path);
    DIR *folder = opendir("/");
    printf("folder: %d\n", folder && readdir(folder));
    closedir(folder);
    void *address = (void *)main;
    char **symbols = backtrace_symbols(&address, 1);
    free(symbols);
    if (fork() == 0) {
        char *text = strdup("a child");
        puts(text);
        free(text);
        printf("lines: %d\n", count_lines("/proc/self/maps") > 5);
        exit(0);
    }
    wait(NULL);
    FILE *pipe = popen("echo from a shell", "r");
    char line[100];
    printf("%s", fgets(line, sizeof line, pipe));
    pclose(pipe);
    free(valloc(100));
    free(memalign(64, 100));
    setenv("NAME", "value", 1);
    puts(getenv("NAME"));
    streams();
    return 0;
}
