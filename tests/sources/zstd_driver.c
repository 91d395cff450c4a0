/* Compresses generated data at several levels, with threads and as a stream, and decompresses it again; prints sizes
   and checksums. The first argument says how many bytes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zstd.h"

enum { MOST = 400000 };

static unsigned char original[MOST], back[MOST], packed[2 * MOST];
static size_t count = MOST;

static unsigned sum(const unsigned char *bytes, size_t size) {
    unsigned sum = 2166136261;
    for (size_t i = 0; i < size; i++) sum = (sum ^ bytes[i]) * 16777619;
    return sum;
}

static void report(const char *what, int number, size_t size, size_t restored) {
    int same = restored == count && !memcmp(original, back, count);
    printf("%s %d: %zu bytes, %08x, same %d\n", what, number, size, sum(packed, size), same);
}

static void generate(void) {
    unsigned state = 1;
    for (size_t i = 0; i < count; i++) {
        state = state * 1664525 + 1013904223;
        /* Skewed literals, for the Huffman decoder, and some matches. */
        unsigned skewed = (state >> 24) & (state >> 16) & 63;
        original[i] = (unsigned char)(i % 1000 < 300 ? (unsigned)"a text that repeats "[i % 20] : ' ' + skewed);
    }
}

static void with_threads(void) {
    ZSTD_CCtx *one = ZSTD_createCCtx();
    size_t status = ZSTD_CCtx_setParameter(one, ZSTD_c_nbWorkers, 2);
    printf("workers: %s\n", ZSTD_isError(status) ? ZSTD_getErrorName(status) : "two");
    ZSTD_CCtx_setParameter(one, ZSTD_c_checksumFlag, 1);
    size_t size = ZSTD_compress2(one, packed, sizeof packed, original, count);
    ZSTD_freeCCtx(one);
    ZSTD_DCtx *other = ZSTD_createDCtx();
    memset(back, 0, count);
    ZSTD_inBuffer in = {packed, size, 0};
    size_t restored = 0;
    for (size_t left = 1; left && restored < count;) {
        ZSTD_outBuffer out = {back + restored, restored + 7777 < count ? 7777 : count - restored, 0};
        left = ZSTD_decompressStream(other, &out, &in);
        if (ZSTD_isError(left)) break;
        restored += out.pos;
    }
    report("threads and stream", 2, size, restored);
    ZSTD_freeDCtx(other);
    packed[size / 2] ^= 0x55;
    printf("damaged: %s\n", ZSTD_isError(ZSTD_decompress(back, count, packed, size)) ? "refused" : "accepted");
}

int main(int argc, char **argv) {
    if (argc > 1) count = (size_t)atoi(argv[1]) % MOST;
    generate();
    printf("zstd %s\n", ZSTD_versionString());
    for (int level = -3; level <= 13; level += 4) {
        size_t size = ZSTD_compress(packed, sizeof packed, original, count, level);
        memset(back, 0, count);
        report("level", level, size, ZSTD_decompress(back, count, packed, size));
    }
    with_threads();
    return 17;
}
