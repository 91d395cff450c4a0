//! Functions that cannot be isolated.

#![allow(unsafe_code, reason = "an unsafe function is refused")]

use farcall::isolate;

struct Counter(u32);

impl Counter {
    #[isolate]
    fn next(&self) -> u32 {
        self.0 + 1
    }
}

#[isolate]
fn largest<T: Ord>(a: T, b: T) -> T {
    a.max(b)
}

#[isolate]
fn zeros<const N: usize>() -> [u8; N] {
    [0; N]
}

#[isolate]
unsafe fn read(at: usize) -> u8 {
    0
}

#[isolate]
const fn answer() -> u32 {
    42
}

#[isolate]
extern "C" fn of_c() -> u32 {
    42
}

#[isolate]
struct NoFunction;

fn main() {}
