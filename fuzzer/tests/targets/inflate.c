/* A decoder of deflate streams (RFC 1951), with a fault that is planted unless SOUND is defined: a repeat of code lengths may
 * go beyond their table. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { BITS_MAX = 15, LITERALS_MAX = 286, DISTANCES_MAX = 30, OUTPUT_BYTES_MAX = 1 << 15 };

struct stream {
    const uint8_t *next, *end;
    uint32_t held;
    int held_bits;
    size_t written;
    uint8_t output[OUTPUT_BYTES_MAX];
};

/* Canonical codes: how many have each length, and their symbols in the order of the codes. */
struct codes {
    uint16_t count[BITS_MAX + 1];
    uint16_t symbols[LITERALS_MAX + 2];
};

/* The next bits, the lowest first; -1 at the end of the input. */
static int take(struct stream *s, int bits) {
    while (s->held_bits < bits) {
        if (s->next == s->end)
            return -1;
        s->held |= (uint32_t)*s->next++ << s->held_bits;
        s->held_bits += 8;
    }
    int value = (int)(s->held & ((1u << bits) - 1));
    s->held >>= bits;
    s->held_bits -= bits;
    return value;
}

static int put(struct stream *s, uint8_t byte) {
    if (s->written == OUTPUT_BYTES_MAX)
        return -1;
    s->output[s->written++] = byte;
    return 0;
}

/* Makes codes of lengths. Fails if there are more codes than the bits allow. */
static int make(struct codes *codes, const uint8_t *lengths, int count) {
    uint16_t start[BITS_MAX + 2] = {0};
    memset(codes->count, 0, sizeof codes->count);
    for (int symbol = 0; symbol < count; symbol++)
        codes->count[lengths[symbol]]++;
    codes->count[0] = 0;
    int left = 1;
    for (int bits = 1; bits <= BITS_MAX; bits++) {
        left = 2 * left - codes->count[bits];
        if (left < 0)
            return -1;
        start[bits + 1] = start[bits] + codes->count[bits];
    }
    for (int symbol = 0; symbol < count; symbol++)
        if (lengths[symbol] != 0)
            codes->symbols[start[lengths[symbol]]++] = (uint16_t)symbol;
    return 0;
}

/* The next symbol; -1 if the bits are no code. */
static int symbol(struct stream *s, const struct codes *codes) {
    int code = 0, first = 0, index = 0;
    for (int bits = 1; bits <= BITS_MAX; bits++) {
        int bit = take(s, 1);
        if (bit < 0)
            return -1;
        code |= bit;
        int count = codes->count[bits];
        if (code - first < count)
            return codes->symbols[index + code - first];
        index += count;
        first = (first + count) << 1;
        code <<= 1;
    }
    return -1;
}

/* A value that `extra` more bits complete. */
static int more(struct stream *s, int base, int extra) {
    int value = take(s, extra);
    return value < 0 ? -1 : base + value;
}

static int copy(struct stream *s, int length, int distance) {
    if (distance < 0 || (size_t)distance > s->written)
        return -1;
    while (length-- > 0)
        if (put(s, s->output[s->written - (size_t)distance]) < 0)
            return -1;
    return 0;
}

static int length_of(struct stream *s, int code) {
    if (code < 8)
        return 3 + code;
    if (code == 28)
        return 258;
    int extra = (code - 4) / 4;
    return more(s, 3 + ((4 + code % 4) << extra), extra);
}

static int distance_of(struct stream *s, int code) {
    if (code < 4)
        return 1 + code;
    int extra = (code - 2) / 2;
    return more(s, 1 + ((2 + code % 2) << extra), extra);
}

static int compressed(struct stream *s, const struct codes *literals, const struct codes *distances) {
    for (;;) {
        int code = symbol(s, literals);
        if (code < 0 || code > 285)
            return -1;
        if (code == 256)
            return 0;
        if (code < 256) {
            if (put(s, (uint8_t)code) < 0)
                return -1;
            continue;
        }
        int length = length_of(s, code - 257);
        int far = symbol(s, distances);
        if (length < 0 || far < 0 || far >= DISTANCES_MAX)
            return -1;
        if (copy(s, length, distance_of(s, far)) < 0)
            return -1;
    }
}

static int stored(struct stream *s) {
    s->held = 0;
    s->held_bits = 0;
    int length = take(s, 16);
    int inverse = take(s, 16);
    if (length < 0 || inverse < 0 || length != (inverse ^ 0xffff))
        return -1;
    while (length-- > 0) {
        int byte = take(s, 8);
        if (byte < 0 || put(s, (uint8_t)byte) < 0)
            return -1;
    }
    return 0;
}

static int fixed(struct stream *s) {
    struct codes literals, distances;
    uint8_t lengths[288];
    for (int at = 0; at < 288; at++)
        lengths[at] = at < 144 ? 8 : at < 256 ? 9 : at < 280 ? 7 : 8;
    make(&literals, lengths, 288);
    memset(lengths, 5, DISTANCES_MAX);
    make(&distances, lengths, DISTANCES_MAX);
    return compressed(s, &literals, &distances);
}

/* Reads `count` code lengths, which are coded themselves. */
__attribute__((noinline)) static int read_lengths(struct stream *s, const struct codes *codes, uint8_t *to, int count) {
    uint8_t lengths[LITERALS_MAX + DISTANCES_MAX];
    int at = 0;
    while (at < count) {
        int code = symbol(s, codes), repeat = 1;
        uint8_t length = 0;
        if (code < 0)
            return -1;
        if (code < 16) {
            length = (uint8_t)code;
        } else if (code == 16) {
            if (at == 0)
                return -1;
            length = lengths[at - 1];
            repeat = more(s, 3, 2);
        } else {
            repeat = code == 17 ? more(s, 3, 3) : more(s, 11, 7);
        }
        if (repeat < 0)
            return -1;
#ifdef SOUND
        if (at + repeat > count)
            return -1;
#endif
        while (repeat-- > 0)
            lengths[at++] = length;
    }
    memcpy(to, lengths, (size_t)count);
    return 0;
}

static int dynamic(struct stream *s) {
    static const uint8_t order[19] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
    struct codes literals, distances;
    uint8_t lengths[LITERALS_MAX + DISTANCES_MAX] = {0};
    int literal_count = more(s, 257, 5), distance_count = more(s, 1, 5), code_count = more(s, 4, 4);
    if (literal_count < 0 || distance_count < 0 || code_count < 0)
        return -1;
    if (literal_count > LITERALS_MAX || distance_count > DISTANCES_MAX)
        return -1;
    for (int at = 0; at < code_count; at++) {
        int length = take(s, 3);
        if (length < 0)
            return -1;
        lengths[order[at]] = (uint8_t)length;
    }
    if (make(&literals, lengths, 19) < 0)
        return -1;
    memset(lengths, 0, sizeof lengths);
    if (read_lengths(s, &literals, lengths, literal_count + distance_count) < 0)
        return -1;
    if (lengths[256] == 0 || make(&literals, lengths, literal_count) < 0)
        return -1;
    if (make(&distances, lengths + literal_count, distance_count) < 0)
        return -1;
    return compressed(s, &literals, &distances);
}

/* Decodes all blocks; the number of bytes, or -1. */
static long inflate(struct stream *s) {
    int is_last;
    do {
        is_last = take(s, 1);
        int kind = take(s, 2);
        int outcome = kind == 0 ? stored(s) : kind == 1 ? fixed(s) : kind == 2 ? dynamic(s) : -1;
        if (is_last < 0 || outcome < 0)
            return -1;
    } while (!is_last);
    return (long)s->written;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct stream s;
    s.next = data;
    s.end = data + size;
    s.held = 0;
    s.held_bits = 0;
    s.written = 0;
    inflate(&s);
    return 0;
}
