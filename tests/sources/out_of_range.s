# A 32-bit field that can hold no address of main plus 16 TiB, wherever main lies.
    .text
    .globl main
    .type main, @function
main:
    xorl %eax, %eax
    ret
    .size main, . - main
    .data
too_narrow:
    .long main + 0x100000000000
    .section .note.GNU-stack, "", @progbits
