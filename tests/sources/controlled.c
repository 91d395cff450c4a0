/* Code that the C program control.c links into its executor and calls. */
#include <farcall/linked.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct point {
    double x, y;
};

static int started;

__attribute__((constructor)) static void start(void) { started++; }

int starts(void) { return started; }

double scale(long count, double unit) { return (double)count * unit; }

struct point turn(struct point point) { return (struct point){-point.y, point.x}; }

int64_t mixed(bool b, int8_t c, uint8_t d, int16_t e, uint16_t f, int32_t g, uint32_t h, int64_t i, uint64_t j, float k,
              double l, const char *m) {
    return b + c + d + e + f + g + h + i + (int64_t)j + (int64_t)(k * 2) + (int64_t)(l * 2) + (m != NULL);
}

/* Wrapper functions. */
struct farcall_result reverse(const char *data, size_t size) {
    char *turned = malloc(size + 1);
    if (turned == NULL)
        abort();
    for (size_t at = 0; at < size; at++)
        turned[at] = data[size - 1 - at];
    struct farcall_result result = farcall_result_of(turned, size);
    free(turned);
    return result;
}

struct farcall_result refuse(const char *data, size_t size) {
    (void)data;
    (void)size;
    return farcall_result_failure("not today");
}

struct farcall_result doze(const char *data, size_t size) {
    uint32_t ms = 0;
    if (size == sizeof ms)
        memcpy(&ms, data, sizeof ms);
    usleep(ms * 1000);
    return farcall_result_of(&ms, sizeof ms);
}

/* Calls the handler with the tag in the first 8 bytes, with the bytes behind. */
struct farcall_result ask(const char *data, size_t size) {
    uint64_t tag = 0;
    if (size < sizeof tag)
        return farcall_result_failure("no tag");
    memcpy(&tag, data, sizeof tag);
    return farcall_call_controller(tag, data + sizeof tag, size - sizeof tag);
}

/* A function of the host. */
double host_scale(int count, double unit);

double through_host(int count) { return host_scale(count, 0.25); }

long sum_of(const long *numbers, long count) {
    long sum = 0;
    for (long at = 0; at < count; at++)
        sum += numbers[at];
    return sum;
}

/* Actions of memory: they count what they are called with. */
static long noted;

struct farcall_result note(const char *data, size_t size) {
    long more = 0;
    if (size == sizeof more)
        memcpy(&more, data, sizeof more);
    noted += more;
    return farcall_result_of(NULL, 0);
}

long what_was_noted(void) { return noted; }

void crash(void) { *(volatile int *)0x10 = 1; }

void leave(int status) { exit(status); }

int main(int count, char **words) {
    if (started != 1 || count < 1)
        return 99;
    for (int at = 1; at < count; at++)
        printf("%s\n", words[at]);
    fflush(stdout);
    return count - 1;
}
