// Functions of every kind of argument and result, to be called by their types.
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

// Each returns its argument, extended.
int64_t from_i8(int8_t x) { return x; }
int64_t from_u8(uint8_t x) { return x; }
int64_t from_i16(int16_t x) { return x; }
int64_t from_u16(uint16_t x) { return x; }
int64_t from_i32(int32_t x) { return x; }
int64_t from_u32(uint32_t x) { return x; }
int64_t from_bool(bool x) { return x ? 3 : 5; }
uint64_t same_u64(uint64_t x) { return x; }
float same_f32(float x) { return x; }
double same_f64(double x) { return x; }

int8_t next_i8(int8_t x) { return (int8_t)(x + 1); }
uint8_t next_u8(uint8_t x) { return (uint8_t)(x + 1); }
int16_t next_i16(int16_t x) { return (int16_t)(x + 1); }
int32_t next_i32(int32_t x) { return (int32_t)((uint32_t)x + 1); }
bool not(bool x) { return !x; }
bool is_less(double a, double b) { return a < b; }
float half(float x) { return x / 2; }
double root(double x) { return sqrt(x); }

// The result in the lowest bits, and all others of the register set.
#ifdef __x86_64__
__asm__(".globl dirty\ndirty:\n mov $-0x80, %rax\n ret\n");
#else
__asm__(".globl dirty\n.type dirty, %function\ndirty:\n mov x0, #-0x80\n ret\n");
#endif

static int calls;
void count(void) { calls++; }
int32_t counted(void) { return calls; }

double scale(int64_t a, double b) { return (double)a * b; }

double many(int64_t a, double b, int32_t c, float d, uint8_t e, double f, int16_t g, double h, int64_t i, float j, bool k, double l,
            int64_t m, double n, int8_t o, double p) {
  double sum = 0;
  double values[] = {(double)a, b, c, d, e, f, g, h, (double)i, j, k, l, (double)m, n, o, p};
  for (int at = 0; at < 16; at++) sum = sum * 3 + values[at];
  return sum;
}

int64_t ten_integers(int64_t a, int32_t b, int16_t c, int8_t d, uint64_t e, uint32_t f, uint16_t g, uint8_t h, int64_t i, int32_t j) {
  int64_t values[] = {a, b, c, d, (int64_t)e, f, g, h, i, j}, sum = 0;
  for (int at = 0; at < 10; at++) sum = sum * 7 + values[at];
  return sum;
}

double eleven_floats(double a, float b, double c, float d, double e, float f, double g, float h, double i, float j, double k) {
  double values[] = {a, b, c, d, e, f, g, h, i, j, k}, sum = 0;
  for (int at = 0; at < 11; at++) sum = sum * 2 + values[at];
  return sum;
}

// Says how far the stack is from being aligned as the ABI has it, with an odd and an even number of words on it.
static int64_t misaligned(void *frame) { return (int64_t)((uintptr_t)frame % 16); }
int64_t stack_of_one(int64_t a, int64_t b, int64_t c, int64_t d, int64_t e, int64_t f, int64_t g) {
  return misaligned(__builtin_frame_address(0)) + (g != 7);
}
int64_t stack_of_two(int64_t a, int64_t b, int64_t c, int64_t d, int64_t e, int64_t f, int64_t g, int64_t h) {
  return misaligned(__builtin_frame_address(0)) + (g != 7) + (h != 8);
}

double sum_of(int32_t count, ...) {
  va_list list;
  va_start(list, count);
  double sum = 0;
  for (int at = 0; at < count; at++) sum += va_arg(list, double);
  va_end(list);
  return sum;
}

struct point {
  int32_t x;
  double y;
  char name[8];
};

// Turns a point round, and returns where its name is.
char *turn(struct point *point) {
  int32_t x = point->x;
  point->x = (int32_t)point->y;
  point->y = x;
  strcpy(point->name, "turned");
  return point->name;
}

__attribute__((noinline)) void crash(int32_t *at) { *at = 1; }

/* Its frame is there when `crash` runs. */
int32_t crash_below(int32_t *at) {
  crash(at);
  return *at + 1;
}

/* Aborts with a frame pointer that points nowhere, so an unwinder faults behind this frame. */
void abort_lost(void);
#ifdef __x86_64__
__asm__(".text\n.globl abort_lost\n.type abort_lost, @function\nabort_lost:\n.cfi_startproc\n"
        "push %rbp\n.cfi_def_cfa_offset 16\n.cfi_offset %rbp, -16\n"
        "movabs $0x4141414141414141, %rbp\n.cfi_def_cfa_register %rbp\n"
        "call abort@PLT\n.cfi_endproc\n.size abort_lost, .-abort_lost\n");
#else
__asm__(".text\n.globl abort_lost\n.type abort_lost, %function\nabort_lost:\n.cfi_startproc\n"
        "stp x29, x30, [sp, #-16]!\n.cfi_def_cfa_offset 16\n.cfi_offset x29, -16\n.cfi_offset x30, -8\n"
        "mov x29, #0x6060606060606060\n.cfi_def_cfa_register x29\n"
        "bl abort\n.cfi_endproc\n.size abort_lost, .-abort_lost\n");
#endif
