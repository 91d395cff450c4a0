/* Features that C and C++ have in the same words; most are words of assembly, reached from here. */
#include "table.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

C_NAMES

/* Every kind of field, in data and in code. */
extern long target[3];
extern const struct {
    int64_t word, distance;
    int32_t near;
} fields;
void feature_relocations(void) {
    long here = (long)&fields;
    printf("%d ", fields.word == (long)(target + 1));
    printf("%d %d\n", here + 8 + fields.distance == (long)(target + 1), here + 16 + fields.near == (long)(target + 2));
    printf("%x %x\n", reach_data(), reach_all());
}

void feature_table(void) { printf("%x\n", reach_table()); }

/* Variables of libraries: of the C library, which native programs get moved or find through a table. */
extern char **environ;
static FILE **const streams[] = {&stdout, &stderr};
static int *const option_place = &optind;
void feature_moved(void) {
    int words = 0;
    for (char **at = environ; *at; at++) words += !strncmp(*at, "CORPUS_WORD=", 12);
    setenv("TABLE_WORD", "set", 1);
    for (char **at = environ; *at; at++) words += !strncmp(*at, "TABLE_WORD=", 11);
    char name[] = "program", option[] = "-x", *arguments[] = {name, option, NULL};
    int got = getopt(2, arguments, "x");
    fprintf(*streams[0], "%d %c %d %d %d\n", words, got, optind, option_place == &optind, streams[1] == &stderr);
    fputs("to stderr\n", *streams[1]);
}

/* A shared library. */
extern int library_number, library_array[100];
extern const char *library_name;
int library_next(void), library_sum(void), library_calls(int (*function)(int), int x);
int *library_place(void);
int of_program(int x);
int of_program(int x) { return x * 100; }
static int *const of_library = &library_number;
void feature_library(void) {
    library_number += 10;
    library_array[99] = 7;
    printf("%d %d %d\n", library_next(), *of_library, library_place() == &library_number);
    printf("%d %d %s\n", library_sum(), library_calls(of_program, 3), library_name);
}

/* Members of archives come in when something refers to them by more than a weak name; the one of the first archive
   needs one of the second, which is thin. */
extern void *const places[7];
int member_needed(int x), thin_needed(int x), thin_behind(int x);
void feature_archive(void) { printf("%d %d\n", member_needed(1), places[5] != NULL); }
void feature_thin(void) { printf("%d %d %d\n", thin_needed(2), thin_behind(3), places[6] != NULL); }

/* Common symbols of two sizes, of assembly and of this language where it has them. */
extern long common_word, common_array[32];
void feature_common(void) {
    common_word = 20;
    change_commons();
    printf("%ld %ld %d\n", common_word, common_array[31], (int)((uintptr_t)common_array % 32));
    printf("%d %d\n", places[2] == (void *)&common_word, places[3] == (void *)common_array);
}

/* Of a group that two objects have, a program keeps one. */
void feature_group(void) { printf("%d %d\n", call_kept(), call_kept_of_other()); }

/* Strings and constants that may be shared, between objects and with the ends of others. */
extern const char *const texts[4], *const texts_of_other[4];
static const char *const own_texts[] = {"a shared text", "shared text", "text", "ext"};
static const int wide[] = {'w', 'i', 'd', 'e', 0};
void feature_merge(void) {
    for (int i = 0; i < 3; i++) printf("%s,%s,%s;", texts[i], texts_of_other[i], own_texts[i]);
    printf("%s %ld %ld ", own_texts[3] + 1, *(const long *)texts[3], *(const long *)texts_of_other[3]);
    volatile double x = 1.0;
    printf("%d %g %d\n", !memcmp(L"wide", wide, sizeof wide), x * 0.1 + x * 12345.75, own_texts[0][13] + (L"x"[1]));
}

/* A section whose start and end have names. */
extern int __start_table_parts[], __stop_table_parts[];
__attribute__((section("table_parts"), used)) static int own_part = 5000;
void feature_bounds(void) {
    int sum = 0;
    for (int *at = __start_table_parts; at < __stop_table_parts; at++) sum += *at;
    printf("%d %d\n", sum, (int)(__stop_table_parts - __start_table_parts));
}

/* More than 65 280 sections; the object with them is only in the program for this. */
void feature_sections(void) { printf("%d\n", call_many()); }

/* An object that says what it is ready for. */
void feature_property(void) { printf("%d\n", marked(8)); }

C_NAMES_END
