//! The sections of assembly, by the assembler of rustc.
#![no_std]

#[cfg(target_arch = "x86_64")]
core::arch::global_asm!(include_str!("many_x86_64.s"), options(att_syntax));
#[cfg(target_arch = "aarch64")]
core::arch::global_asm!(include_str!("many_aarch64.s"));
