//! Options that there are not.

use farcall::isolate;

#[isolate(confine = "tight")]
fn a() {}

#[isolate(confine = true)]
fn b() {}

#[isolate(timeout = 5)]
fn c() {}

#[isolate(timeout = "5 hours")]
fn d() {}

#[isolate(memory = "0 MiB")]
fn e() {}

#[isolate(processes = 0)]
fn f() {}

#[isolate(restart = "never")]
fn g() {}

#[isolate(speed = "high")]
fn h() {}

#[isolate(timeout = "1s", timeout = "2s")]
fn i() {}

#[isolate(timeout = "1s")]
async fn j() {}

#[isolate(strict)]
fn k() {}

fn main() {}
