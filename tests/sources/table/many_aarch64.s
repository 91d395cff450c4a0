// More sections than a symbol table has numbers for, and behind them four with code and data that refer to one another.
    .altmacro
    .macro word_section number
    .section .data.many.\number, "aw", @progbits
    .word \number
    .endm
    .set at, 0
    .rept 65500
    word_section %at
    .set at, at + 1
    .endr

    .section .data.many_first, "aw", @progbits
    .globl many_first
many_first: .word 3000
    .section .data.rel.many_second, "aw", @progbits
    .balign 8
many_second: .quad many_first
    .section .text.many_sum, "ax", @progbits
    .globl many_sum
    .type many_sum, @function
many_sum:
    adrp x0, many_second
    ldr x0, [x0, :lo12:many_second]
    ldr w0, [x0]
    adrp x1, many_third
    ldr w1, [x1, :lo12:many_third]
    add w0, w0, w1
    ret
    .section .data.many_third, "aw", @progbits
many_third: .word 333
    .section .note.GNU-stack, "", @progbits
