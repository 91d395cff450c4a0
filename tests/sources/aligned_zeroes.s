# Data that is aligned to more than a page, with zero fill behind it.
        .globl word, zeroes
        .data
        .balign 0x8000
word:   .quad 7
        .bss
zeroes: .zero 0x6000
        .section .note.GNU-stack,"",@progbits
