/* Compresses generated data at every level, decompresses it, compares it and prints sizes and checksums. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zlib.h"

enum { SIZE = 300000 };

int main(void) {
    unsigned char *original = malloc(SIZE), *back = malloc(SIZE);
    uLong bound = compressBound(SIZE);
    unsigned char *packed = malloc(bound);
    unsigned state = 1;
    for (int i = 0; i < SIZE; i++) {
        state = state * 1664525 + 1013904223;
        original[i] = i % 1000 < 600 ? "a text that repeats "[i % 20] : (unsigned char)(state >> 24);
    }
    printf("zlib %s\n", zlibVersion());
    printf("crc %08lx, adler %08lx\n", crc32(0, original, SIZE), adler32(1, original, SIZE));
    for (int level = 0; level <= 9; level++) {
        uLongf length = bound, restored = SIZE;
        int one = compress2(packed, &length, original, SIZE, level);
        memset(back, 0, SIZE);
        int two = uncompress(back, &restored, packed, length);
        int same = restored == SIZE && !memcmp(original, back, SIZE);
        printf("level %d: %lu bytes, crc %08lx, %d %d, same %d\n", level, length, crc32(0, packed, length), one,
               two, same);
    }
    packed[1000] ^= 0x55;
    uLongf restored = SIZE;
    int damaged = uncompress(back, &restored, packed, bound);
    printf("damaged: %s\n", zError(damaged));
    return 13;
}
