/* Data of all shapes: addresses in data with addends, merged strings, large alignments, large zeroed data,
   sections named by the program with the bounds the linker gives them, and tables of labels. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static char zeroed[32 << 20];
static char page[4096] __attribute__((aligned(4096))) = {1};
static const char *texts[] = {"common tail", "tail", "", "common tail"};
static int eight[] = {1, 2, 3, 4, 5, 6, 7, 8};
static int *inside[] = {&eight[3], eight + 8, &eight[0]};
static const char text[] = "0123456789";
static const char *const near_end = text + 9;
static const char *before(void) { return text - 3; }

struct node { struct node *next; int value; };
static struct node third = {0, 30}, second = {&third, 20}, head = {&second, 10};

static const int in_section_1 __attribute__((section("numbers"), used)) = 11;
static const int in_section_2 __attribute__((section("numbers"), used)) = 22;
extern const int __start_numbers[], __stop_numbers[];

__attribute__((noinline)) static int interpret(const char *program) {
    static const void *const labels[] = {&&halt, &&increment, &&twice, &&negate};
    int value = 0;
#define NEXT goto *labels[*program++ - '0']
    NEXT;
increment:
    value++;
    NEXT;
twice:
    value *= 2;
    NEXT;
negate:
    value = -value;
    NEXT;
halt:
    return value;
}

int main(void) {
    size_t dirty = 0;
    for (size_t i = 0; i < sizeof zeroed; i += 509) dirty += zeroed[i];
    zeroed[0] = zeroed[sizeof zeroed - 1] = 3;
    printf("zeroed: dirty %zu, ends %d\n", dirty, zeroed[0] + zeroed[sizeof zeroed - 1]);
    printf("page aligned %d, first %d, last %d\n", (uintptr_t)page % 4096 == 0, page[0], page[4095]);
    for (int i = 0; i < 4; i++) printf("[%s] ", texts[i]);
    printf("\ninside %d %d %d\n", *inside[0], inside[1][-1], *inside[2]);
    printf("near end %c, before %c\n", *near_end, before()[5]);
    for (struct node *node = &head; node; node = node->next) printf("node %d\n", node->value);
    int sum = 0;
    for (const int *p = __start_numbers; p < __stop_numbers; p++) sum += *p;
    printf("section %d of %d\n", sum, (int)(__stop_numbers - __start_numbers));
    printf("interpreted %d\n", interpret("112210"));
    printf("negated %d\n", interpret("1122130"));
    return 0;
}
