//! Values that cannot cross.

use farcall::isolate;

#[isolate]
fn fill(data: &mut [u8]) {
    data.fill(1);
}

#[isolate]
fn first(words: &str) -> &str {
    words
}

#[isolate]
fn both(text: &'static str) -> (u8, Option<&'static str>) {
    (1, Some(text))
}

#[isolate]
fn apply(function: impl Fn(u32) -> u32) -> u32 {
    function(1)
}

#[isolate]
fn apply_boxed(function: &dyn Fn(u32) -> u32) -> u32 {
    function(1)
}

#[isolate]
fn apply_pointer(function: fn(u32) -> u32) -> u32 {
    function(1)
}

#[isolate]
fn count(text: *const u8) -> usize {
    0
}

#[isolate]
fn forever() -> ! {
    loop {}
}

#[isolate]
fn numbers() -> impl Iterator<Item = u32> {
    0..3
}

fn main() {}
