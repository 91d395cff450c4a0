/* Compresses generated data at every level, decompresses it, compares it and prints sizes and checksums. The first
   argument says how many bytes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zlib.h"

int main(int argc, char **argv) {
    int size = argc > 1 ? atoi(argv[1]) : 300000;
    unsigned char *original = malloc(size), *back = malloc(size);
    uLong bound = compressBound(size);
    unsigned char *packed = malloc(bound);
    unsigned state = 1;
    for (int i = 0; i < size; i++) {
        state = state * 1664525 + 1013904223;
        original[i] = i % 1000 < 600 ? "a text that repeats "[i % 20] : (unsigned char)(state >> 24);
    }
    printf("zlib %s\n", zlibVersion());
    printf("crc %08lx, adler %08lx\n", crc32(0, original, size), adler32(1, original, size));
    for (int level = 0; level <= 9; level++) {
        uLongf length = bound, restored = size;
        int one = compress2(packed, &length, original, size, level);
        memset(back, 0, size);
        int two = uncompress(back, &restored, packed, length);
        int same = restored == size && !memcmp(original, back, size);
        printf("level %d: %lu bytes, crc %08lx, %d %d, same %d\n", level, length, crc32(0, packed, length), one,
               two, same);
    }
    packed[size / 300] ^= 0x55;
    uLongf restored = size;
    int damaged = uncompress(back, &restored, packed, bound);
    printf("damaged: %s\n", zError(damaged));
    free(original), free(back), free(packed);
    return 13;
}
