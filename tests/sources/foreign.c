/* Variables and functions that belong to the C library: both sides see what the other writes, whichever side
   owns the memory, and a function has one address. */
#define _GNU_SOURCE
#include <getopt.h>
#include <math.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ, **__environ;
extern int nobody_has_this __attribute__((weak));
void nobody_does_this(void) __attribute__((weak));

static int count(char **entry) {
    int count = 0;
    for (; entry && *entry; entry++) count++;
    return count;
}

static int entries(void) { return count(environ); }

static void options(void) {
    char *words[] = {"program", "-v", "-o", "file", "-x", "first", "--long=7", "last", NULL};
    static const struct option longs[] = {{"long", required_argument, NULL, 'l'}, {NULL, 0, NULL, 0}};
    int option;
    opterr = 0;
    while ((option = getopt_long(8, words, "vo:", longs, NULL)) != -1) {
        printf("option %c argument %s next %d unknown %c\n", option, optarg ? optarg : "-", optind,
               option == '?' ? optopt : '-');
    }
    while (optind < 8) printf("word %s\n", words[optind++]);
    optind = 1;
    option = getopt(3, words, "v");
    printf("again %c\n", option);
}

static void environment(void) {
    int before = entries();
    setenv("FOREIGN", "one", 1);
    printf("entries added: %d, by the other name %d\n", entries() - before, count(__environ) - before);
    char *mine[] = {"FOREIGN=mine", NULL};
    char **saved = environ;
    environ = mine;
    printf("getenv says %s\n", getenv("FOREIGN"));
    environ = saved;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        setenv("FOREIGN", "the child's", 1);
        setenv("FOREIGN_CHILD", "1", 1);
        _exit(entries() - before);
    }
    int status = 0;
    waitpid(child, &status, 0);
    printf("the child had %d more, here it is %s\n", WEXITSTATUS(status), getenv("FOREIGN"));
    clearenv();
    printf("cleared: %d entries\n", entries());
    fflush(stdout);
    printf("shell: %d\n", system("exit 3") >> 8);
}

static void streams(void) {
    FILE *saved = stdout;
    fflush(stdout);
    stdout = stderr;
    puts("puts goes to where stdout points");
    stdout = saved;
    fprintf(stdout, "and back\n");
}

static void zone(void) {
    setenv("TZ", "AAA-3BBB", 1);
    tzset();
    printf("zone %ld %d %s %s\n", timezone, daylight, tzname[0], tzname[1]);
}

int (*const in_constants)(const char *) = puts;
void *(*in_data)(void *, const void *, size_t) = memcpy;
double (*of_libm)(double) = sin;

int main(void) {
    options();
    environment();
    streams();
    zone();
    double gamma = lgamma(-0.5);
    printf("lgamma %.6f sign %d\n", gamma, signgam);
    for (int i = 0; i < 16; i++) printf("%d", ((const unsigned char *)&in6addr_loopback)[i]);
    printf("\nmissing: %d %d\n", &nobody_has_this == NULL, nobody_does_this == NULL);
    void *(*volatile copy)(void *, const void *, size_t) = memcpy;
    int (*volatile say)(const char *) = puts;
    double (*volatile sine)(double) = sin;
    printf("same: %d %d %d\n", copy == in_data, say == in_constants, sine == of_libm);
    char text[8] = "";
    copy(text, "copied", 7);
    say(text);
    return sine(0.0) == 0.0 ? 21 : 1;
}
