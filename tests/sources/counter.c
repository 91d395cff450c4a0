/* A counter for others to count with. */
#include <stddef.h>
#include <string.h>

typedef struct {
    char bytes[8];
    size_t size;
} Result;

long count;

Result read_count(const char *data, size_t size) {
    (void)data, (void)size;
    Result result = {{0}, sizeof count};
    memcpy(result.bytes, &count, sizeof count);
    return result;
}
