# A variable of a shared library that says neither what it is nor how large.
    .globl sizeless
    .data
    .balign 8
sizeless:
    .quad 1
    .section .note.GNU-stack, "", @progbits
