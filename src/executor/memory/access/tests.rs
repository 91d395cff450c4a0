//! `MemoryAccessSPSCITest` of LLVM's runtime: each operation, through its encoded arguments. `tests/it/executor/inspect.rs`
//! tests unreadable and unwritable addresses by message.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

use super::*;
use crate::sps::{self, Decode, Encode};

/// Calls a function with these arguments, encoded.
fn call<R: Serve>(args: &impl Encode) -> R::Ret
where
    R::Ret: for<'a> Decode<'a>,
{
    R::serve(sps::from_bytes(&sps::to_bytes(args)).expect("decodes")).expect("an answer")
}

fn at<T: ?Sized>(target: &T) -> ExecutorAddr {
    ExecutorAddr::new((&raw const *target).cast::<u8>().expose_provenance() as u64)
}

#[test]
fn write_uint8s() {
    let (x, y) = (AtomicU8::new(0), AtomicU8::new(0));
    call::<WriteU8s>(&(vec![(at(&x), 42_u8), (at(&y), 255)],));
    assert_eq!((x.load(Relaxed), y.load(Relaxed)), (42, 255));
}

#[test]
fn write_uint16s() {
    let (x, y) = (AtomicU16::new(0), AtomicU16::new(0));
    call::<WriteU16s>(&(vec![(at(&x), 1000_u16), (at(&y), 65535)],));
    assert_eq!((x.load(Relaxed), y.load(Relaxed)), (1000, 65535));
}

#[test]
fn write_uint32s() {
    let (x, y) = (AtomicU32::new(0), AtomicU32::new(0));
    call::<WriteU32s>(&(vec![(at(&x), 100_000_u32), (at(&y), 0xdead_beef)],));
    assert_eq!((x.load(Relaxed), y.load(Relaxed)), (100_000, 0xdead_beef));
}

#[test]
fn write_uint64s() {
    let (x, y) = (AtomicU64::new(0), AtomicU64::new(0));
    call::<WriteU64s>(&(vec![(at(&x), 1_u64 << 40), (at(&y), u64::MAX)],));
    assert_eq!((x.load(Relaxed), y.load(Relaxed)), (1 << 40, u64::MAX));
}

#[test]
fn write_pointers() {
    let (x, y) = (AtomicU64::new(0), AtomicU64::new(0));
    call::<WritePointers>(&(vec![(at(&x), at(&y)), (at(&y), ExecutorAddr::NULL)],));
    assert_eq!((x.load(Relaxed), y.load(Relaxed)), (at(&y).get(), 0));
}

#[test]
fn write_buffers() {
    let target: [AtomicU8; 8] = std::array::from_fn(|_| AtomicU8::new(9));
    let buffers = vec![(at(&target), Bytes(b"hello\0".to_vec())), (at(&target[7]), Bytes(vec![]))];
    call::<WriteBuffers>(&(buffers,));
    assert_eq!(target.map(AtomicU8::into_inner), *b"hello\0\x09\x09");
}

#[test]
fn read_uint8s() {
    let target = [42_u8, 255];
    let read = call::<ReadU8s>(&(vec![at(&target[1]), at(&target[0])],));
    assert_eq!(read, [255, 42], "in the order that was asked for");
}

#[test]
fn read_uint16s() {
    let target = [1000_u16, 65535];
    assert_eq!(call::<ReadU16s>(&(vec![at(&target[0]), at(&target[1])],)), target);
}

#[test]
fn read_uint32s() {
    let target = [100_000_u32, 0xdead_beef];
    assert_eq!(call::<ReadU32s>(&(vec![at(&target[0]), at(&target[1])],)), target);
}

#[test]
fn read_uint64s() {
    let target = [1_u64 << 40, u64::MAX];
    assert_eq!(call::<ReadU64s>(&(vec![at(&target[0]), at(&target[1])],)), target);
}

#[test]
fn read_pointers() {
    let words = [7_u64, 8];
    let target = [at(&words[1]).get(), 0];
    let read = call::<ReadPointers>(&(vec![at(&target[0]), at(&target[1])],));
    assert_eq!(read, [at(&words[1]), ExecutorAddr::NULL]);
}

#[test]
fn read_buffers() {
    let target = *b"hello world";
    let range = |from: usize, bytes| AddrRange::sized(at(&target[from]), bytes).expect("a range");
    let read = call::<ReadBuffers>(&(vec![range(6, 5), range(0, 0), range(0, 5)],));
    assert_eq!(read, [Bytes(b"world".to_vec()), Bytes(vec![]), Bytes(b"hello".to_vec())]);
}

#[test]
fn read_strings() {
    let target = *b"hello\0world\0";
    let read = call::<ReadStrings>(&(vec![at(&target[6]), at(&target[5]), at(&target)],));
    assert_eq!(read, [Bytes(b"world".to_vec()), Bytes(vec![]), Bytes(b"hello".to_vec())]);
}
