//! The sections of many.s, by the assembler of rustc.
#![no_std]

core::arch::global_asm!(include_str!("many.s"), options(att_syntax));
