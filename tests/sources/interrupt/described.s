# A loop in a frame of its own, with a description of that frame.
    .text
    .globl spin_described
    .type spin_described, @function
spin_described:
    .cfi_startproc
    pushq %rbx
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset %rbx, 0
1:  incq %rbx
    jmp 1b
    .cfi_endproc
    .size spin_described, . - spin_described
    .section .note.GNU-stack, "", @progbits
