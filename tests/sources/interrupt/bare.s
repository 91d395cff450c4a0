# A loop without unwind information.
    .text
    .globl spin_bare
    .type spin_bare, @function
spin_bare:
    jmp spin_bare
    .size spin_bare, . - spin_bare
    .section .note.GNU-stack, "", @progbits
