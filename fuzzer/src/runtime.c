/* Linked beside each target: counts its edges into memory that the fuzzer maps as well, and calls it.
 *
 * Two instrumentations of clang are counted. Guards (trace-pc-guard) have numbers, and each edge calls a function here.
 * Counters (inline-8bit-counters) lie in the target's own data; they are copied after the execution. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

enum { RANGES_MAX = 1024, PAGE_BYTES = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
__attribute__((weak)) int LLVMFuzzerInitialize(int *count, char ***words);

/* The sections that the target's objects have announced. */
struct ranges {
    size_t count;
    struct { void *start; size_t bytes; } all[RANGES_MAX];
};
static struct ranges guards, inlined;
/* One range too many was announced. */
static int is_full;

/* Counts all edges until the fuzzer has given memory: then all guards are 0. */
static uint8_t before;
static uint8_t *counters = &before;
/* The first counter that belongs to no guard. */
static uint32_t first_inlined;
static uint8_t *input_end;

static void announce(struct ranges *ranges, void *start, size_t bytes) {
    for (size_t at = 0; at < ranges->count; at++)
        if (ranges->all[at].start == start)
            return; /* each object of a link announces the same range */
    is_full |= ranges->count == RANGES_MAX;
    if (bytes == 0 || is_full)
        return;
    ranges->all[ranges->count].start = start;
    ranges->all[ranges->count++].bytes = bytes;
}

void __sanitizer_cov_trace_pc_guard_init(uint32_t *start, uint32_t *stop) {
    announce(&guards, start, (char *)stop - (char *)start);
}

void __sanitizer_cov_8bit_counters_init(uint8_t *start, uint8_t *stop) {
    announce(&inlined, start, stop - start);
}

void __sanitizer_cov_trace_pc_guard(uint32_t *guard) {
    uint8_t *counter = &counters[*guard];
    /* Never back to 0. */
    *counter += 1 + (*counter == UINT8_MAX);
}

/* What else -fsanitize=fuzzer-no-link calls. Nothing here uses it. */
#define IGNORED(name, ...) void name(__VA_ARGS__) {}
IGNORED(__sanitizer_cov_pcs_init, const uintptr_t *start, const uintptr_t *stop)
IGNORED(__sanitizer_cov_trace_pc_indir, uintptr_t callee)
IGNORED(__sanitizer_cov_trace_cmp1, uint8_t a, uint8_t b)
IGNORED(__sanitizer_cov_trace_cmp2, uint16_t a, uint16_t b)
IGNORED(__sanitizer_cov_trace_cmp4, uint32_t a, uint32_t b)
IGNORED(__sanitizer_cov_trace_cmp8, uint64_t a, uint64_t b)
IGNORED(__sanitizer_cov_trace_const_cmp1, uint8_t a, uint8_t b)
IGNORED(__sanitizer_cov_trace_const_cmp2, uint16_t a, uint16_t b)
IGNORED(__sanitizer_cov_trace_const_cmp4, uint32_t a, uint32_t b)
IGNORED(__sanitizer_cov_trace_const_cmp8, uint64_t a, uint64_t b)
IGNORED(__sanitizer_cov_trace_switch, uint64_t value, uint64_t *cases)
IGNORED(__sanitizer_cov_trace_div4, uint32_t value)
IGNORED(__sanitizer_cov_trace_div8, uint64_t value)
IGNORED(__sanitizer_cov_trace_gep, uintptr_t index)
__thread uintptr_t __sancov_lowest_stack;

/* Takes the memory for `bytes` counters. Inputs end at `end`, and the page behind them cannot be read from now on.
 * Returns the number of counters, of which the first is not used; 0 if there are too many. */
uint64_t farcall_fuzz_start(uint8_t *memory, uint64_t bytes, uint8_t *end) {
    uint32_t numbers = 1;
    for (size_t at = 0; at < guards.count; at++)
        numbers += guards.all[at].bytes / sizeof(uint32_t);
    uint64_t all = numbers;
    for (size_t at = 0; at < inlined.count; at++)
        all += inlined.all[at].bytes;
    if (is_full || all > bytes || mprotect(end, PAGE_BYTES, PROT_NONE) != 0)
        return 0;
    uint32_t number = 1;
    for (size_t at = 0; at < guards.count; at++)
        for (size_t guard = 0; guard < guards.all[at].bytes / sizeof(uint32_t); guard++)
            ((uint32_t *)guards.all[at].start)[guard] = number++;
    first_inlined = numbers;
    counters = memory;
    input_end = end;
    static char name[] = "farcall-fuzzer";
    static char *program[] = {name, NULL};
    static char **words = program;
    static int count = 1;
    if (LLVMFuzzerInitialize)
        LLVMFuzzerInitialize(&count, &words);
    return all;
}

/* Runs the target with the `size` bytes before the input's end, and returns its result. */
int32_t farcall_fuzz_run(uint64_t size) {
    memset(counters, 0, first_inlined);
    for (size_t at = 0; at < inlined.count; at++)
        memset(inlined.all[at].start, 0, inlined.all[at].bytes);
    int32_t result = LLVMFuzzerTestOneInput(input_end - size, size);
    uint8_t *counter = counters + first_inlined;
    for (size_t at = 0; at < inlined.count; at++) {
        memcpy(counter, inlined.all[at].start, inlined.all[at].bytes);
        counter += inlined.all[at].bytes;
    }
    return result;
}
