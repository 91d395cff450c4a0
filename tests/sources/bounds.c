/* The names that linkers give to the bounds of a program. Their order is the same in every program; the addresses are not. */
#include <stdio.h>

extern char __executable_start[], etext[], _etext[], __data_start[], data_start[], edata[], _edata[];
extern char __bss_start[], end[], _end[];
extern char __TMC_END__[] __attribute__((visibility("hidden")));
typedef void function(void);
extern function *__preinit_array_start[], *__preinit_array_end[], *__init_array_start[];
extern function *__init_array_end[], *__fini_array_start[], *__fini_array_end[];
extern char no_linker_defines_this[] __attribute__((weak));

int data = 3;
int zero_fill[1000];
static int constructed;

__attribute__((constructor)) static void construct(void) { constructed++; }
__attribute__((destructor)) static void destruct(void) { puts("destructed"); }

static int holds(function **from, function **to, function *wanted)
{
    for (; from < to; from++)
        if (*from == wanted)
            return 1;
    return 0;
}

int main(void)
{
    char *code = (char *)main, *variable = (char *)&data, *zero = (char *)zero_fill;
    printf("code %d %d\n", __executable_start <= code && code < etext, etext == _etext);
    printf("data %d %d\n", data_start <= variable && variable < edata, edata == _edata);
    printf("starts %d\n", data_start <= __data_start || __data_start <= variable);
    printf("zero fill %d %d\n", __bss_start <= zero && zero + sizeof zero_fill <= end, end == _end);
    printf("end of transactional memory's table %d\n", __TMC_END__ > variable && __TMC_END__ <= __bss_start + 64);
    printf("order %d\n", edata <= __bss_start && __bss_start <= end);
    printf("arrays %d %d %d\n", __preinit_array_start == __preinit_array_end,
           holds(__init_array_start, __init_array_end, construct),
           holds(__fini_array_start, __fini_array_end, destruct));
    printf("weak %d, constructed %d\n", no_linker_defines_this != 0, constructed);
    return 0;
}
