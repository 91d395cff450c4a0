/* Compresses generated data at several levels, in one piece, with threads, with a dictionary and as a stream, and
   decompresses it again; prints sizes and checksums. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zstd.h"

enum { SIZE = 400000 };

static unsigned sum(const unsigned char *bytes, size_t size) {
    unsigned sum = 2166136261;
    for (size_t i = 0; i < size; i++) sum = (sum ^ bytes[i]) * 16777619;
    return sum;
}

static unsigned char original[SIZE], back[SIZE], packed[2 * SIZE];

static void report(const char *what, int number, size_t size, size_t restored) {
    int same = restored == SIZE && !memcmp(original, back, SIZE);
    printf("%s %d: %zu bytes, %08x, same %d\n", what, number, size, sum(packed, size), same);
}

int main(void) {
    unsigned state = 1;
    for (int i = 0; i < SIZE; i++) {
        state = state * 1664525 + 1013904223;
        /* Skewed literals, for the Huffman decoder, and some matches. */
        unsigned skewed = (state >> 24) & (state >> 16) & 63;
        original[i] = i % 1000 < 300 ? (unsigned char)"a text that repeats "[i % 20] : (unsigned char)(' ' + skewed);
    }
    printf("zstd %s\n", ZSTD_versionString());
    for (int level = -3; level <= 13; level += 4) {
        size_t size = ZSTD_compress(packed, sizeof packed, original, SIZE, level);
        memset(back, 0, SIZE);
        report("level", level, size, ZSTD_decompress(back, SIZE, packed, size));
    }
    ZSTD_CCtx *one = ZSTD_createCCtx();
    size_t status = ZSTD_CCtx_setParameter(one, ZSTD_c_nbWorkers, 2);
    printf("workers: %s\n", ZSTD_isError(status) ? ZSTD_getErrorName(status) : "two");
    ZSTD_CCtx_setParameter(one, ZSTD_c_checksumFlag, 1);
    size_t size = ZSTD_compress2(one, packed, sizeof packed, original, SIZE);
    ZSTD_freeCCtx(one);
    ZSTD_DCtx *other = ZSTD_createDCtx();
    memset(back, 0, SIZE);
    ZSTD_inBuffer in = {packed, size, 0};
    size_t restored = 0;
    for (size_t left = 1; left && restored < SIZE;) {
        ZSTD_outBuffer out = {back + restored, restored + 7777 < SIZE ? 7777 : SIZE - restored, 0};
        left = ZSTD_decompressStream(other, &out, &in);
        if (ZSTD_isError(left)) break;
        restored += out.pos;
    }
    report("threads and stream", 2, size, restored);
    ZSTD_freeDCtx(other);
    packed[size / 2] ^= 0x55;
    printf("damaged: %s\n", ZSTD_isError(ZSTD_decompress(back, SIZE, packed, size)) ? "refused" : "accepted");
    return 17;
}
