/* A library with functions of every shape that a binding knows. */
#ifndef SHAPES_H
#define SHAPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHAPES_VERSION "1.2"
#define SHAPES_MAX 64
#define SHAPES_HALF (1.0 / 2)
#define SHAPES_ALL (~0ull)
#define SHAPES_LOWEST INT64_MIN
#define SHAPES_NEXT(x) ((x) + 1)
#define SHAPES_OPEN {
#define SHAPES_NOTHING

enum color { RED, GREEN = 5, BLUE };
enum { SHAPES_NAME_MAX = 32 };

struct shape;

struct point {
    short x;
    double y;
    const char *name;
    uint8_t parts[3];
};

typedef struct {
    struct point from, to;
} line;

union word {
    int number;
    float real;
};

struct flags {
    unsigned first : 3, second : 5;
    union word word;
};

typedef int (*visitor)(void *data, int at, const char *name, double size);

/* Numbers. */
int add(int a, int b);
bool is_red(enum color color);
enum color next_color(enum color color);
float halves(float a, signed char b, unsigned short c, bool d);
uint64_t bits(int64_t value);
void touch(void);

/* Slices. */
double mean(const double *values, size_t count);
void negate(int32_t *values, unsigned count);
int upper(const char *text, char *out, size_t *out_len);
long checksum(const void *data, size_t size);

/* Text. */
const char *version(void);
char *join(const char *first, const char *second);
int explain(int code, char **text);
void give_back(void *text);

/* Structures. */
void turn(struct point *point);
double distance(const line *line);
void middle(const line *line, struct point *point);
int change(struct flags *flags);
double sum_x(const struct point *points, size_t points_count);
int split(double value, int *whole, double *rest);

/* Objects. */
int shape_open(const char *name, double size, struct shape **opened);
struct shape *shape_copy(const struct shape *shape);
double shape_size(const struct shape *shape);
const char *shape_name(struct shape *shape);
void shape_close(struct shape *shape);

/* Callbacks. */
int each(int count, visitor visit, void *data);
int rows(int count, int (*row)(void *data, int columns, char **values, char **names), void *data);
int introduce(struct shape *shape, void (*met)(struct shape *shape, void *data), void *data);

/* Addresses. */
void *keep(void *memory);
int kept(int at);

/* Left out. */
int print(const char *format, ...);
struct point origin(void);
long double wide(long double value);
static inline int within(int value) { return value; }

/* Ends. */
int crash(void);
int hang(void);

#endif
