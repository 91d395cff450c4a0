# The other half of assembly_x86_64.s.

    .text
init_letter:
    movl $73, %edi
    jmp note_letter@PLT
init_late_letter:
    movl $108, %edi
    jmp note_letter@PLT
fini_letter:
    movl $70, %edi
    jmp end_letter@PLT
fini_late_letter:
    movl $76, %edi
    jmp end_letter@PLT
    .section .preinit_array, "aw", @preinit_array
    .balign 8
    .quad preinit_letter
    .text
preinit_letter:
    movl $112, %edi
    jmp note_letter@PLT

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
    leal 4(%rdi), %eax
    ret

    .globl weak_both
    .type weak_both, @function
weak_both:
    movl $3, %eax
    ret
    .comm common_word, 8, 8
    .comm common_array, 256, 16
    .globl change_commons
    .type change_commons, @function
change_commons:
    movq common_word@GOTPCREL(%rip), %rax
    addq $5, (%rax)
    movq common_array@GOTPCREL(%rip), %rax
    addq $6, 248(%rax)
    ret

    .section .text.kept_once, "axG", @progbits, kept_once, comdat
    .weak kept_once
    .type kept_once, @function
kept_once:
    movl $2, %eax
    ret
    .text
    .globl call_kept_of_other
call_kept_of_other: jmp kept_once@PLT

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
    .long 200, 300

    .text
chosen: leal (%rdi, %rdi, 2), %eax
    ret
choose: leaq chosen(%rip), %rax
    ret
    .globl asm_choice
    .type asm_choice, @gnu_indirect_function
    .set asm_choice, choose

# Returns the thread-local, and counts it up.
    .globl next_of_other
    .type next_of_other, @function
next_of_other:
    movl $1, %eax
    xaddl %eax, %fs:local_of_other@TPOFF
    ret
    .section .tdata.of_other, "awT", @progbits
    .type local_of_other, @object
    .balign 4
local_of_other: .long 100
    .section .note.GNU-stack, "", @progbits
    .text
