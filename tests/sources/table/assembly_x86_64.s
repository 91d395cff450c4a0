# What a linker meets in assembly only, or in assembly for certain; the programs of the table have it in one object,
# and assembly_other_x86_64.s in another. For the assemblers of gcc, clang and rustc.

    .text
# Adds the letter %edi to the log of what ran at start.
    .globl note_letter
    .type note_letter, @function
note_letter:
    movl letters_used(%rip), %ecx
    leaq letters(%rip), %rax
    movb %dil, (%rax, %rcx)
    incl letters_used(%rip)
    ret
preinit_letter:
    movl $80, %edi
    jmp note_letter
init_letter:
    movl $105, %edi
    jmp note_letter
ctors_letter:
    movl $99, %edi
    jmp note_letter
ctors_first_letter:
    movl $67, %edi
    jmp note_letter

    .section .preinit_array, "aw", @preinit_array
    .balign 8
    .quad preinit_letter
    .section .init_array.00250, "aw", @init_array
    .balign 8
    .quad init_letter
    .section .ctors, "aw", @progbits
    .balign 8
    .quad ctors_letter, ctors_first_letter
    .section .ctors.65385, "aw", @progbits # priority 150
    .balign 8
    .quad ctors_letter

    .text
# Writes the letter %edi when the end is what is watched.
    .globl end_letter
    .type end_letter, @function
end_letter:
    cmpl $0, watch_end(%rip)
    je 1f
    jmp putchar@PLT
1:  ret
fini_letter:
    movl $102, %edi
    jmp end_letter
dtors_letter:
    movl $100, %edi
    jmp end_letter
dtors_late_letter:
    movl $68, %edi
    jmp end_letter

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
watch_end: .long 0
letters_used: .long 0
    .type letters, @object
    .size letters, 64
letters: .zero 64

# Fields of data that hold the place of something in every way; `target` has 24 bytes.
    .globl target
    .type target, @object
    .size target, 24
    .balign 8
target: .quad 11, 22, 33
    .globl fields
    .type fields, @object
    .balign 8
fields:
    .quad target + 8
    .quad target + 8 - .
    .long target + 16 - .
    .balign 8
of_table:
    .quad target@GOTOFF
    .quad _GLOBAL_OFFSET_TABLE_ - .
sizes:
    .quad target@SIZE
    .long target@SIZE + 1
slot: .long target@GOTPCREL

# The other fields: returns in %eax a bit for each that is right.
    .text
    .globl reach_data
    .type reach_data, @function
reach_data:
    xorl %eax, %eax
    leaq target(%rip), %rdx
    leaq of_table(%rip), %rcx
    movq 8(%rcx), %rsi
    leaq 8(%rcx, %rsi), %rsi
    addq (%rcx), %rsi
    cmpq %rdx, %rsi
    jne 1f
    orl $1, %eax
1:  leaq slot(%rip), %rcx
    movslq (%rcx), %rsi
    cmpq %rdx, (%rcx, %rsi)
    jne 1f
    orl $2, %eax
1:  cmpq $24, sizes(%rip)
    jne 1f
    orl $4, %eax
1:  cmpl $25, sizes + 8(%rip)
    jne 1f
    orl $8, %eax
1:  ret

# Reaches a function and `target` in every way of code: returns in %eax a bit for each way that is right.
    .text
    .globl reach_all
    .type reach_all, @function
reach_all:
    pushq %rbx
    pushq %r12
    subq $8, %rsp
    xorl %ebx, %ebx
    leaq target(%rip), %r12
    movq target@GOTPCREL(%rip), %rax
    cmpq %rax, %r12
    jne 1f
    orl $1, %ebx
1:  movl $4, %edi
    call four_more@PLT
    cmpl $8, %eax
    jne 1f
    orl $2, %ebx
1:  movl $5, %edi
    call four_more
    cmpl $9, %eax
    jne 1f
    orl $4, %ebx
1:  movl $6, %edi
    call *four_more@GOTPCREL(%rip)
    cmpl $10, %eax
    jne 1f
    orl $8, %ebx
1:  cmpq target@GOTPCREL(%rip), %r12
    jne 1f
    orl $16, %ebx
1:  cmpl $22, target + 8(%rip)
    jne 1f
    orl $32, %ebx
1:  leaq _GLOBAL_OFFSET_TABLE_(%rip), %rcx
    movabsq $four_more@PLTOFF, %rax
    addq %rcx, %rax
    movl $7, %edi
    call *%rax
    cmpl $11, %eax
    jne 1f
    orl $64, %ebx
1:  movl %ebx, %eax
    addq $8, %rsp
    popq %r12
    popq %rbx
    ret

# Compares ways through the table of addresses.
    .globl reach_table
    .type reach_table, @function
reach_table:
    xorl %eax, %eax
    leaq target(%rip), %rdx
    leaq _GLOBAL_OFFSET_TABLE_(%rip), %rsi
    movabsq $target@GOT, %rcx
    cmpq %rdx, (%rsi, %rcx)
    jne 1f
    orl $1, %eax
1:  movabsq $target@GOTOFF, %rcx
    addq %rsi, %rcx
    cmpq %rdx, %rcx
    jne 1f
    orl $2, %eax
1:  leaq 1f(%rip), %rdi
1:  movabsq $_GLOBAL_OFFSET_TABLE_ - 1b, %rcx
    addq %rdi, %rcx
    cmpq %rcx, %rsi
    jne 1f
    orl $4, %eax
1:  cmpq %rdx, target@GOT(%rsi)
    jne 1f
    orl $8, %eax
1:  ret

# Weak and common symbols, and a group of which a program keeps one.
    .weak weak_both, weak_nowhere, many_sum, member_unused, thin_unused
    .type weak_both, @function
weak_both:
    movl $2, %eax
    ret
    .globl call_weak_both, call_kept, call_choice, call_many
call_weak_both: jmp weak_both@PLT
call_kept: jmp kept_once@PLT
# GNU ld cannot link such a call that is compiled for the large code model.
call_choice: jmp asm_choice@PLT
call_many: jmp *many_sum@GOTPCREL(%rip)
    .comm common_word, 8, 8
    .comm common_array, 64, 32
    .section .text.kept_once, "axG", @progbits, kept_once, comdat
    .weak kept_once
    .type kept_once, @function
kept_once:
    movl $1, %eax
    ret
    .section .data.rel.ro.places, "aw", @progbits
    .globl places
    .type places, @object
    .balign 8
places: .quad weak_both, weak_nowhere, common_word, common_array, asm_choice, member_unused, thin_unused

# Strings and constants that may be shared.
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

# Parts of a section that has a start and an end.
    .section table_parts, "aw", @progbits
    .balign 4
    .long 100

# Functions that call the one they get: with unwind information and without.
    .text
    .globl call_with_cfi, call_without_cfi
    .type call_with_cfi, @function
call_with_cfi:
    .cfi_startproc
    pushq %rbx
    .cfi_def_cfa_offset 16
    .cfi_offset %rbx, -16
    xorl %ebx, %ebx
    call *%rdi
    popq %rbx
    .cfi_def_cfa_offset 8
    ret
    .cfi_endproc
    .size call_with_cfi, . - call_with_cfi
    .type call_without_cfi, @function
call_without_cfi:
    pushq %rbx
    call *%rdi
    popq %rbx
    ret
    .size call_without_cfi, . - call_without_cfi

# The address of the thread-local `by_assembly`, by each model.
    .globl by_gd, by_ld, by_ie, by_le, by_desc
    .type by_gd, @function
by_gd:
    subq $8, %rsp
    .byte 0x66
    leaq by_assembly@TLSGD(%rip), %rdi
    .word 0x6666
    rex64
    call __tls_get_addr@PLT
    addq $8, %rsp
    ret
    .type by_ld, @function
by_ld:
    subq $8, %rsp
    leaq by_assembly@TLSLD(%rip), %rdi
    call __tls_get_addr@PLT
    leaq by_assembly@DTPOFF(%rax), %rax
    addq $8, %rsp
    ret
    .type by_ie, @function
by_ie:
    movq by_assembly@GOTTPOFF(%rip), %rax
    addq %fs:0, %rax
    ret
    .type by_le, @function
by_le:
    movq %fs:0, %rax
    leaq by_assembly@TPOFF(%rax), %rax
    ret
    .type by_desc, @function
by_desc:
    subq $8, %rsp
    leaq by_assembly@TLSDESC(%rip), %rax
    call *by_assembly@TLSCALL(%rax)
    addq %fs:0, %rax
    addq $8, %rsp
    ret

    .section .tbss.early, "awT", @nobits
    .balign 64
    .zero 64
    .section .tdata.assembly, "awT", @progbits
    .globl by_assembly
    .type by_assembly, @object
    .size by_assembly, 4
    .balign 16
by_assembly: .long 17

# What says that all of the object is ready for the checks of branch targets.
    .section .note.gnu.property, "a", @note
    .balign 8
    .long 4, 16, 5
    .asciz "GNU"
    .long 0xc0000002, 4, 3, 0
    .text
    .globl marked
    .type marked, @function
marked:
    endbr64
    leal 1(%rdi), %eax
    ret
    .section .note.GNU-stack, "", @progbits
    .text
