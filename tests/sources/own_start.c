// A program that brings its own _start: what it finds on its stack, and that it runs nothing else.
#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

asm(".globl _start\n"
    "_start:\n"
    "mov %rsp, %rdi\n"
    "mov %rdx, %rsi\n"
    "mov %rbp, %rdx\n"
    "call begin\n");

__attribute__((constructor)) static void unwanted(void) { puts("a constructor has run"); }

__attribute__((used)) void begin(uintptr_t *stack, uintptr_t at_exit, uintptr_t frame) {
    int count = (int)stack[0], words = 0;
    char **arguments = (char **)(stack + 1), **environment = arguments + count + 1;
    printf("%d modulo 16, frame %d\n", (int)((uintptr_t)stack % 16), (int)frame);
    (void)at_exit;
    for (int i = 1; i < count; i++) printf("argument %d: %s\n", i, arguments[i]);
    printf("a null behind them: %d\n", arguments[count] == NULL);
    while (environment[words]) words++;
    printf("environment: %d\n", words > 0);
    uintptr_t *vector = (uintptr_t *)(environment + words + 1);
    for (; vector[0] != AT_NULL; vector += 2)
        if (vector[0] == AT_PAGESZ) printf("pages of %d bytes\n", (int)vector[1]);
    fflush(stdout);
    _exit(42);
}
