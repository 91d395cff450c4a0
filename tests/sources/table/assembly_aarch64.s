// What a linker meets in assembly only, or in assembly for certain; the programs of the table have it in one object,
// and assembly_other_aarch64.s in another. For the assemblers of gcc, clang and rustc.

    .text
// Adds the letter w0 to the log of what ran at start.
    .globl note_letter
    .type note_letter, @function
note_letter:
    adrp x1, letters_used
    ldr w2, [x1, :lo12:letters_used]
    adrp x3, letters
    add x3, x3, :lo12:letters
    strb w0, [x3, w2, uxtw]
    add w2, w2, 1
    str w2, [x1, :lo12:letters_used]
    ret
preinit_letter:
    mov w0, 80
    b note_letter
init_letter:
    mov w0, 105
    b note_letter
ctors_letter:
    mov w0, 99
    b note_letter
ctors_first_letter:
    mov w0, 67
    b note_letter

    .section .preinit_array, "aw", @preinit_array
    .balign 8
    .quad preinit_letter
    .section .init_array.00250, "aw", @init_array
    .balign 8
    .quad init_letter
    .section .ctors, "aw", @progbits
    .balign 8
    .quad ctors_letter, ctors_first_letter
    .section .ctors.65385, "aw", @progbits // priority 150
    .balign 8
    .quad ctors_letter

    .text
// Writes the letter w0 when the end is what is watched.
    .globl end_letter
    .type end_letter, @function
end_letter:
    adrp x1, watch_end
    ldr w1, [x1, :lo12:watch_end]
    cbz w1, 1f
    b putchar
1:  ret
fini_letter:
    mov w0, 102
    b end_letter
dtors_letter:
    mov w0, 100
    b end_letter
dtors_late_letter:
    mov w0, 68
    b end_letter

    .section .fini_array.00250, "aw", @fini_array
    .balign 8
    .quad fini_letter
    .section .dtors, "aw", @progbits
    .balign 8
    .quad dtors_letter
    .section .dtors.65385, "aw", @progbits
    .balign 8
    .quad dtors_late_letter

    .data
    .globl watch_end, letters
    .balign 4
    .type watch_end, @object
watch_end: .word 0
letters_used: .word 0
    .type letters, @object
    .size letters, 64
letters: .zero 64

// Fields of data that hold the place of something in every way; `target` has 24 bytes.
    .globl target
    .type target, @object
    .size target, 24
    .balign 16
target: .quad 11, 22, 33
    .section .data.fields, "aw", @progbits
    .globl fields
    .type fields, @object
    .balign 8
fields:
    .quad target + 8
    .quad target + 8 - .
    .word target + 16 - .
    .balign 8
to_table: .quad _GLOBAL_OFFSET_TABLE_ - .

// The other fields: returns in w0 a bit for each that is right.
    .text
    .globl reach_data
    .type reach_data, @function
reach_data:
    adrp x1, to_table
    add x1, x1, :lo12:to_table
    ldr x2, [x1]
    add x1, x1, x2
    adrp x2, _GLOBAL_OFFSET_TABLE_
    add x2, x2, :lo12:_GLOBAL_OFFSET_TABLE_
    cmp x1, x2
    cset w0, eq
    ret

// Sections that conditional branches and literals reach.
    .section .text.near, "ax", @progbits
two_more:
    add w0, w0, 2
    ret
    .balign 8
near_word: .quad 44
    .text

// Sets a bit of w19 if the flags say that two things were equal.
    .macro is_right bit
    b.ne 1f
    orr w19, w19, \bit
1:
    .endm

// Reaches functions and `target` in every way of code: returns in w0 a bit for each way that is right.
    .globl reach_all
    .type reach_all, @function
reach_all:
    stp x29, x30, [sp, -32]!
    stp x19, x20, [sp, 16]
    mov w19, wzr
    adrp x20, target
    add x20, x20, :lo12:target
    adrp x0, :got:target
    ldr x0, [x0, :got_lo12:target]
    cmp x0, x20
    is_right 1
    mov w0, 4
    bl four_more
    cmp w0, 8
    is_right 2
    mov w0, 6
    adrp x1, :got:four_more
    ldr x1, [x1, :got_lo12:four_more]
    blr x1
    cmp w0, 10
    is_right 4
    adrp x1, four_more
    add x1, x1, :lo12:four_more
    mov w0, 7
    blr x1
    cmp w0, 11
    is_right 8
    movz x1, :prel_g3:target
    movk x1, :prel_g2_nc:target + 4
    movk x1, :prel_g1_nc:target + 8
    movk x1, :prel_g0_nc:target + 12
    adr x2, . - 16
    add x1, x1, x2
    cmp x1, x20
    is_right 16
    adrp x1, target + 8
    ldrb w2, [x1, :lo12:target + 8]
    ldrh w3, [x1, :lo12:target + 8]
    ldr w4, [x1, :lo12:target + 8]
    ldr x5, [x1, :lo12:target + 8]
    add w2, w2, w3
    add w2, w2, w4
    add w2, w2, w5
    cmp w2, 88
    is_right 32
    adrp x1, target
    ldr q0, [x1, :lo12:target]
    mov x2, v0.d[1]
    cmp x2, 22
    is_right 64
    mov w0, 5
    bl by_condition
    cmp w0, 7
    is_right 128
    mov w0, 6
    bl by_bit
    cmp w0, 8
    is_right 256
    mov w0, 7
    adr x1, two_more
    blr x1
    cmp w0, 9
    is_right 512
    ldr x0, near_word
    cmp x0, 44
    is_right 1024
    mov w0, w19
    ldp x19, x20, [sp, 16]
    ldp x29, x30, [sp], 32
    ret
by_condition: cbnz w0, two_more
    ret
by_bit: tbz w0, 0, two_more
    ret

// Compares ways through the table of addresses.
    .globl reach_table
    .type reach_table, @function
reach_table:
    adrp x1, target
    add x1, x1, :lo12:target
    adrp x2, _GLOBAL_OFFSET_TABLE_
    ldr x2, [x2, :gotpage_lo15:target]
    cmp x1, x2
    cset w0, eq
    adrp x2, :got:target
    ldr x2, [x2, :got_lo12:target]
    cmp x1, x2
    cset w3, eq
    orr w0, w0, w3, lsl 1
    adrp x1, _GLOBAL_OFFSET_TABLE_
    add x1, x1, :lo12:_GLOBAL_OFFSET_TABLE_
    movz x2, :prel_g1:_GLOBAL_OFFSET_TABLE_
    movk x2, :prel_g0_nc:_GLOBAL_OFFSET_TABLE_ + 4
    adr x3, . - 8
    add x2, x2, x3
    cmp x1, x2
    cset w3, eq
    orr w0, w0, w3, lsl 2
    ret

// Weak and common symbols, and a group of which a program keeps one.
    .weak weak_both, weak_nowhere, many_sum, member_unused, thin_unused
    .type weak_both, @function
weak_both:
    mov w0, 2
    ret
    .globl call_weak_both, call_kept, call_choice, call_many
call_weak_both: b weak_both
call_kept: b kept_once
call_choice: b asm_choice
call_many:
    adrp x16, :got:many_sum
    ldr x16, [x16, :got_lo12:many_sum]
    br x16
    .comm common_word, 8, 8
    .comm common_array, 64, 32
    .section .text.kept_once, "axG", @progbits, kept_once, comdat
    .weak kept_once
    .type kept_once, @function
kept_once:
    mov w0, 1
    ret
    .section .data.rel.ro.places, "aw", @progbits
    .globl places
    .type places, @object
    .balign 8
places: .quad weak_both, weak_nowhere, common_word, common_array, asm_choice, member_unused, thin_unused

// Strings and constants that may be shared.
    .section .rodata.str1.1, "aMS", @progbits, 1
shared_text: .asciz "a shared text"
own_text: .asciz "its own text"
    .section .rodata.cst16, "aM", @progbits, 16
    .balign 16
sixteen: .quad 16, 61
    .section .rodata.texts, "a", @progbits
    .section .data.rel.ro.texts, "aw", @progbits
    .globl texts
    .type texts, @object
    .balign 8
texts: .quad shared_text, shared_text + 2, own_text + 4, sixteen + 8

// Parts of a section that has a start and an end.
    .section table_parts, "aw", @progbits
    .balign 4
    .word 100

// Functions that call the one they get: with unwind information and without.
    .text
    .globl call_with_cfi, call_without_cfi
    .type call_with_cfi, @function
call_with_cfi:
    .cfi_startproc
    stp x29, x30, [sp, -32]!
    .cfi_def_cfa_offset 32
    .cfi_offset 29, -32
    .cfi_offset 30, -24
    str x19, [sp, 16]
    .cfi_offset 19, -16
    mov x19, xzr
    blr x0
    ldr x19, [sp, 16]
    ldp x29, x30, [sp], 32
    .cfi_restore 19
    .cfi_restore 29
    .cfi_restore 30
    .cfi_def_cfa_offset 0
    ret
    .cfi_endproc
    .size call_with_cfi, . - call_with_cfi
    .type call_without_cfi, @function
call_without_cfi:
    stp x29, x30, [sp, -16]!
    blr x0
    ldp x29, x30, [sp], 16
    ret
    .size call_without_cfi, . - call_without_cfi

// The address of the thread-local `by_assembly`, by each model. Where the assemblers differ in the names or the shifts of operands,
// `.reloc` says what the operand is.
    .globl by_gd, by_ld, by_ie, by_le, by_desc, __tls_get_addr
    .type by_gd, @function
by_gd:
    stp x29, x30, [sp, -16]!
    .reloc ., R_AARCH64_TLSGD_ADR_PAGE21, by_assembly
    .inst 0x90000000 // adrp x0, :tlsgd:by_assembly
    .reloc ., R_AARCH64_TLSGD_ADD_LO12_NC, by_assembly
    add x0, x0, 0
    .reloc ., R_AARCH64_CALL26, __tls_get_addr
    .inst 0x94000000 // bl __tls_get_addr
    nop
    ldp x29, x30, [sp], 16
    ret
    .type by_ld, @function
by_ld:
    stp x29, x30, [sp, -16]!
    adrp x0, :tlsdesc:_TLS_MODULE_BASE_
    ldr x1, [x0, :tlsdesc_lo12:_TLS_MODULE_BASE_]
    add x0, x0, :tlsdesc_lo12:_TLS_MODULE_BASE_
    .tlsdesccall _TLS_MODULE_BASE_
    blr x1
    mrs x1, tpidr_el0
    add x0, x0, x1
    .reloc ., R_AARCH64_TLSLD_ADD_DTPREL_HI12, by_assembly
    add x0, x0, 0, lsl 12
    add x0, x0, :dtprel_lo12_nc:by_assembly
    ldp x29, x30, [sp], 16
    ret
    .type by_ie, @function
by_ie:
    mrs x1, tpidr_el0
    adrp x0, :gottprel:by_assembly
    ldr x0, [x0, :gottprel_lo12:by_assembly]
    add x0, x0, x1
    ret
    .type by_le, @function
by_le:
    mrs x0, tpidr_el0
    .reloc ., R_AARCH64_TLSLE_ADD_TPREL_HI12, by_assembly
    add x0, x0, 0, lsl 12
    add x0, x0, :tprel_lo12_nc:by_assembly
    ret
    .type by_desc, @function
by_desc:
    stp x29, x30, [sp, -16]!
    adrp x0, :tlsdesc:by_assembly
    ldr x1, [x0, :tlsdesc_lo12:by_assembly]
    add x0, x0, :tlsdesc_lo12:by_assembly
    .tlsdesccall by_assembly
    blr x1
    mrs x1, tpidr_el0
    add x0, x0, x1
    ldp x29, x30, [sp], 16
    ret

    .section .tbss.early, "awT", @nobits
    .balign 64
    .zero 64
    .section .tdata.assembly, "awT", @progbits
    .globl by_assembly
    .type by_assembly, @object
    .size by_assembly, 4
    .balign 16
by_assembly: .word 17

// What says that all of the object is ready for the checks of branch targets and of return addresses.
    .section .note.gnu.property, "a", @note
    .balign 8
    .word 4, 16, 5
    .asciz "GNU"
    .word 0xc0000000, 4, 3, 0
    .text
    .globl marked
    .type marked, @function
marked:
    hint 34 // bti c
    add w0, w0, 1
    ret
    .section .note.GNU-stack, "", @progbits
    .text
