// The other half of assembly_aarch64.s.

    .text
init_letter:
    mov w0, 73
    b note_letter
init_late_letter:
    mov w0, 108
    b note_letter
fini_letter:
    mov w0, 70
    b end_letter
fini_late_letter:
    mov w0, 76
    b end_letter
    .section .preinit_array, "aw", @preinit_array
    .balign 8
    .quad preinit_letter
    .text
preinit_letter:
    mov w0, 112
    b note_letter

    .section .init_array.00150, "aw", @init_array
    .balign 8
    .quad init_letter
    .section .init_array, "aw", @init_array
    .balign 8
    .quad init_late_letter
    .section .fini_array.00150, "aw", @fini_array
    .balign 8
    .quad fini_letter
    .section .fini_array, "aw", @fini_array
    .balign 8
    .quad fini_late_letter

    .text
    .globl four_more
    .type four_more, @function
four_more:
    add w0, w0, 4
    ret

    .globl weak_both
    .type weak_both, @function
weak_both:
    mov w0, 3
    ret
    .comm common_word, 8, 8
    .comm common_array, 256, 16
    .globl change_commons
    .type change_commons, @function
change_commons:
    adrp x0, :got:common_word
    ldr x0, [x0, :got_lo12:common_word]
    ldr x1, [x0]
    add x1, x1, 5
    str x1, [x0]
    adrp x0, :got:common_array
    ldr x0, [x0, :got_lo12:common_array]
    ldr x1, [x0, 248]
    add x1, x1, 6
    str x1, [x0, 248]
    ret

    .section .text.kept_once, "axG", @progbits, kept_once, comdat
    .weak kept_once
    .type kept_once, @function
kept_once:
    mov w0, 2
    ret
    .text
    .globl call_kept_of_other
call_kept_of_other: b kept_once

    .section .rodata.str1.1, "aMS", @progbits, 1
tail_text: .asciz "text"
shared_text: .asciz "a shared text"
    .section .rodata.cst16, "aM", @progbits, 16
    .balign 16
sixteen: .quad 16, 61
    .section .data.rel.ro.texts, "aw", @progbits
    .globl texts_of_other
    .type texts_of_other, @object
    .balign 8
texts_of_other: .quad shared_text, shared_text + 9, tail_text + 1, sixteen

    .section table_parts, "aw", @progbits
    .balign 4
    .word 200, 300

    .text
chosen:
    add w0, w0, w0, lsl 1
    ret
choose:
    adrp x0, chosen
    add x0, x0, :lo12:chosen
    ret
    .globl asm_choice
    .type asm_choice, @gnu_indirect_function
    .set asm_choice, choose

// Returns the thread-local, and counts it up. The assemblers differ in the shift of the operand, so `.reloc` says what it is.
    .globl next_of_other
    .type next_of_other, @function
next_of_other:
    mrs x1, tpidr_el0
    .reloc ., R_AARCH64_TLSLE_ADD_TPREL_HI12, local_of_other
    add x1, x1, 0, lsl 12
    add x1, x1, :tprel_lo12_nc:local_of_other
    ldr w0, [x1]
    add w2, w0, 1
    str w2, [x1]
    ret
    .section .tdata.of_other, "awT", @progbits
    .type local_of_other, @object
    .balign 4
local_of_other: .word 100
    .section .note.GNU-stack, "", @progbits
    .text
