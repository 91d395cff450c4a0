/* The same library, whose answers are random: results, lengths, pointers, text and calls of closures. */
#include "shapes.h"

#include <string.h>
#include <unistd.h>

static uint64_t state = 88172645463325252ull;
static char text[64];

static uint64_t any(void) {
    /* Each process has other answers. */
    static bool is_seeded;
    if (!is_seeded)
        state += (uint64_t)getpid() * 0x9e3779b97f4a7c15ull;
    is_seeded = true;
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

/* A small number, a large one, an address of this library or one of the host's choosing. */
static uint64_t number(uint64_t given) {
    switch (any() % 8) {
    case 0: return 0;
    case 1: return any() % 64;
    case 2: return any();
    case 3: return ~0ull >> any() % 64;
    case 4: return (uintptr_t)text;
    case 5: return given + any() % 5 - 2;
    case 6: return 1ull << any() % 64;
    default: return given;
    }
}

static void spoil(void *memory, size_t bytes) {
    for (size_t at = 0; memory && at < bytes; at++)
        ((unsigned char *)memory)[at] = (unsigned char)any();
}

static char *words(void) {
    spoil(text, sizeof text - 1);
    return any() % 4 ? text : (char *)(uintptr_t)number(0);
}

int add(int a, int b) { return (int)number((uint64_t)a + b); }
bool is_red(enum color color) { return number(color); }
enum color next_color(enum color color) { return (enum color)number(color); }
float halves(float a, signed char b, unsigned short c, bool d) { return (float)number(b + c + d) + a; }
uint64_t bits(int64_t value) { return number((uint64_t)value); }
void touch(void) {}
double mean(const double *values, size_t count) { return (double)number((uintptr_t)values + count); }
void negate(int32_t *values, unsigned count) { spoil(values, count * sizeof *values); }

int upper(const char *source, char *out, size_t *out_len) {
    spoil(out, *out_len);
    *out_len = number(*out_len + (source != NULL));
    return (int)number(0);
}

long checksum(const void *data, size_t size) { return (long)number((uintptr_t)data + size); }
const char *version(void) { return words(); }
char *join(const char *first, const char *second) { return first < second ? words() : text; }

int explain(int code, char **explained) {
    *explained = words();
    return (int)number((uint64_t)code);
}

void give_back(void *given) { (void)given; }
void turn(struct point *point) { spoil(point, sizeof *point); }
double distance(const line *line) { return (double)number((uintptr_t)line); }

void middle(const line *line, struct point *point) {
    (void)line;
    spoil(point, sizeof *point);
}

int change(struct flags *flags) {
    spoil(flags, sizeof *flags);
    return (int)number(0);
}

double sum_x(const struct point *points, size_t points_count) { return (double)number((uintptr_t)points + points_count); }

int split(double value, int *whole, double *rest) {
    spoil(whole, sizeof *whole);
    spoil(rest, sizeof *rest);
    return (int)number((uint64_t)(value > 0));
}

int shape_open(const char *name, double size, struct shape **opened) {
    *opened = (struct shape *)(uintptr_t)number((uintptr_t)name);
    return (int)number((uint64_t)(size > 0));
}

struct shape *shape_copy(const struct shape *shape) { return (struct shape *)(uintptr_t)number((uintptr_t)shape); }
double shape_size(const struct shape *shape) { return (double)number((uintptr_t)shape); }
const char *shape_name(struct shape *shape) { return shape ? words() : NULL; }
void shape_close(struct shape *shape) { (void)shape; }

int each(int count, visitor visit, void *data) {
    for (int at = 0; visit && at < count; at++)
        visit(any() % 4 ? data : (void *)(uintptr_t)number((uintptr_t)data), (int)number((uint64_t)at), words(), (double)any());
    return (int)number(0);
}

int rows(int count, int (*row)(void *data, int columns, char **values, char **names), void *data) {
    /* The array is read as it is: an address of nothing is a crash of this process, which takes time. */
    char *values[3] = { text, text, NULL }, *names[3] = { text, NULL, text };
    for (int at = 0; row && at < count; at++)
        row(any() % 4 ? data : (void *)(uintptr_t)number((uintptr_t)data), any() % 64 ? 2 : (int)number(2), any() % 256 ? values : (char **)(uintptr_t)number(0), names);
    return (int)number(0);
}

int introduce(struct shape *shape, void (*met)(struct shape *shape, void *data), void *data) {
    if (met)
        met((struct shape *)(uintptr_t)number((uintptr_t)shape), any() % 4 ? data : (void *)(uintptr_t)number((uintptr_t)data));
    return (int)number(0);
}

void *keep(void *memory) { return (void *)(uintptr_t)number((uintptr_t)memory); }
int kept(int at) { return (int)number((uint64_t)at); }
int crash(void) { return *(volatile int *)16; }

int hang(void) {
    for (;;)
        ;
}
