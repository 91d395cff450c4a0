//! The members of the table's archives, chosen by the configuration `member`.
#![no_std]
#![allow(dead_code, reason = "each member needs another one")]

unsafe extern "C" {
    safe fn absent_everywhere(x: i32) -> i32;
    safe fn thin_needed(x: i32) -> i32;
    safe fn thin_behind(x: i32) -> i32;
}

#[cfg(member = "0")]
#[unsafe(no_mangle)]
pub extern "C" fn member_needed(x: i32) -> i32 {
    thin_needed(x).wrapping_add(1000)
}
#[cfg(member = "1")]
#[unsafe(no_mangle)]
pub extern "C" fn member_unused(x: i32) -> i32 {
    absent_everywhere(x)
}
#[cfg(member = "2")]
#[unsafe(export_name = "thin_needed")]
pub extern "C" fn needed(x: i32) -> i32 {
    thin_behind(x).wrapping_add(100)
}
#[cfg(member = "3")]
#[unsafe(export_name = "thin_behind")]
pub extern "C" fn behind(x: i32) -> i32 {
    x.wrapping_add(10)
}
#[cfg(member = "4")]
#[unsafe(no_mangle)]
pub extern "C" fn thin_unused(x: i32) -> i32 {
    absent_everywhere(x)
}
