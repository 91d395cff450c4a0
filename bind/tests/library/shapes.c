/* The library as its header promises. */
#include "shapes.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct shape {
    char name[SHAPES_NAME_MAX];
    double size;
};

static void *remembered;

int add(int a, int b) { return a + b; }
bool is_red(enum color color) { return color == RED; }
enum color next_color(enum color color) { return color == RED ? GREEN : BLUE; }
float halves(float a, signed char b, unsigned short c, bool d) { return a / 2 + b + c + d; }
uint64_t bits(int64_t value) { return (uint64_t)value; }
void touch(void) {}

double mean(const double *values, size_t count) {
    double sum = 0;
    for (size_t at = 0; at < count; at++)
        sum += values[at];
    return sum / count;
}

void negate(int32_t *values, unsigned count) {
    for (unsigned at = 0; at < count; at++)
        values[at] = -values[at];
}

int upper(const char *text, char *out, size_t *out_len) {
    size_t length = strlen(text);
    bool fits = length <= *out_len;
    for (size_t at = 0; fits && at < length; at++)
        out[at] = toupper((unsigned char)text[at]);
    *out_len = length;
    return fits ? 0 : -1;
}

long checksum(const void *data, size_t size) {
    long sum = 0;
    for (size_t at = 0; at < size; at++)
        sum = sum * 31 + ((const unsigned char *)data)[at];
    return sum;
}

const char *version(void) { return SHAPES_VERSION; }

char *join(const char *first, const char *second) {
    if (!first || !second)
        return NULL;
    char *joined = malloc(strlen(first) + strlen(second) + 1);
    strcpy(joined, first);
    return strcat(joined, second);
}

int explain(int code, char **text) {
    *text = code ? strdup("not zero") : NULL;
    return code;
}

void give_back(void *text) { free(text); }

void turn(struct point *point) {
    short x = point->x;
    point->x = (short)-point->y;
    point->y = x;
    point->parts[2]++;
}

double distance(const line *line) {
    if (!line)
        return -1;
    return hypot(line->to.x - line->from.x, line->to.y - line->from.y);
}

void middle(const line *line, struct point *point) {
    point->x = (line->from.x + line->to.x) / 2;
    point->y = (line->from.y + line->to.y) / 2;
}

int change(struct flags *flags) {
    int before = flags->second;
    flags->second = flags->first;
    flags->word.number = 7;
    return before;
}

double sum_x(const struct point *points, size_t points_count) {
    double sum = 0;
    for (size_t at = 0; at < points_count; at++)
        sum += points[at].x;
    return sum;
}

int split(double value, int *whole, double *rest) {
    *whole = (int)value;
    *rest = value - *whole;
    return *rest == 0;
}

int shape_open(const char *name, double size, struct shape **opened) {
    if (!name)
        return -1;
    *opened = calloc(1, sizeof **opened);
    snprintf((*opened)->name, sizeof (*opened)->name, "%s", name);
    (*opened)->size = size;
    return 0;
}

struct shape *shape_copy(const struct shape *shape) {
    struct shape *copy = malloc(sizeof *copy);
    return shape ? memcpy(copy, shape, sizeof *copy) : (free(copy), NULL);
}

double shape_size(const struct shape *shape) { return shape->size; }
const char *shape_name(struct shape *shape) { return shape->name; }
void shape_close(struct shape *shape) { free(shape); }

int each(int count, visitor visit, void *data) {
    for (int at = 0; visit && at < count; at++) {
        int status = visit(data, at, at % 2 ? "odd" : NULL, at / 2.0);
        if (status)
            return status;
    }
    return 0;
}

int rows(int count, int (*row)(void *data, int columns, char **values, char **names), void *data) {
    char *names[] = { "row", "empty" };
    for (int at = 0; at < count; at++) {
        char text[16], *values[] = { text, NULL };
        snprintf(text, sizeof text, "%d", at);
        if (row(data, 2, values, names))
            return 1;
    }
    return 0;
}

int introduce(struct shape *shape, void (*met)(struct shape *shape, void *data), void *data) {
    met(shape, data);
    return 1;
}

void *keep(void *memory) {
    void *before = remembered;
    remembered = memory;
    return before;
}

int kept(int at) { return ((unsigned char *)remembered)[at]++; }

int print(const char *format, ...) { return format != NULL; }
struct point origin(void) { return (struct point){ 0 }; }
long double wide(long double value) { return value; }

int crash(void) { return *(volatile int *)16; }

int hang(void) {
    for (;;)
        ;
}
