//! The heap alone: where blocks lie, a million of them, memory that comes back.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

use super::*;
use crate::controller::region::Access;
use crate::error::ErrorKind;
use crate::random::Random;
use crate::sync::Ordering;

fn heap(bytes: u64) -> RegionHeap {
    RegionHeap::new(Region::new(bytes, Access::ReadWrite).expect("a region"))
}

/// The bytes of memory that the region of a heap has taken.
fn taken(heap: &RegionHeap) -> u64 {
    let file = File::from(heap.region().as_fd().try_clone_to_owned().expect("a descriptor"));
    file.metadata().expect("its state").blocks() * 512
}

/// H8: a block needs as much as is free, and no power of two of it.
#[test]
fn after_a_tiny_block_nearly_all_of_the_heap_is_one_block() {
    const BYTES: usize = 64 << 20;
    let heap = heap(BYTES as u64);
    let layout = |bytes| Layout::from_size_align(bytes, 4096).expect("a layout");
    let tiny = heap.allocate(Layout::new::<u64>()).expect("room");
    for bytes in [(32 << 20) + 4096, 40 << 20, 48 << 20, BYTES - 8192, 32 << 20] {
        let large = heap.allocate(layout(bytes)).unwrap_or_else(|error| panic!("{bytes}: {error}"));
        assert!(large.address().get().is_multiple_of(4096) && large.offset() >= 16);
        assert!(large.offset() + bytes <= BYTES, "{}", large.offset());
        assert_eq!(heap.used_bytes(), bytes as u64 + 16);
    }
    assert_eq!(heap.allocate(layout(BYTES)).expect_err("no room").kind(), ErrorKind::Exhausted);
    drop(tiny);
    assert_eq!(heap.used_bytes(), 0);
    heap.allocate(layout(BYTES)).expect("the parts are whole again");
}

#[test]
fn blocks_are_apart_aligned_and_all_come_back() {
    const BYTES: usize = (1 << 20) - 48;
    let heap = heap(BYTES as u64);
    let (mut random, mut blocks) = (Random::new(3), Vec::<HeapBlock>::new());
    let mut refused = 0;
    for round in 0..20_000 {
        if random.one_in(2) && !blocks.is_empty() {
            blocks.swap_remove(random.index(blocks.len()));
        }
        let bytes_max = 1 << random.index(17);
        let bytes = random.index(bytes_max);
        let align = 1 << random.index(13);
        match heap.allocate(Layout::from_size_align(bytes, align).expect("a layout")) {
            Ok(block) => {
                assert!(block.address().get().is_multiple_of(align as u64));
                assert!(block.offset() + bytes <= BYTES && block.bytes() == bytes);
                blocks.push(block);
            }
            Err(error) => {
                assert!(error.kind() == ErrorKind::Exhausted, "{error:?}");
                refused += 1;
            }
        }
        if round % 1000 == 0 {
            let mut ranges: Vec<_> =
                blocks.iter().map(|block| (block.offset(), block.bytes().max(1))).collect();
            ranges.sort_unstable();
            assert!(ranges.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0));
            let units: usize = ranges.iter().map(|(_, bytes)| bytes.div_ceil(UNIT)).sum();
            assert_eq!(heap.used_bytes(), (units * UNIT) as u64);
        }
    }
    assert!(refused > 100, "the heap was full at times: {refused}");
    drop(blocks);
    assert_eq!(heap.used_bytes(), 0);
    let largest = Layout::from_size_align(1 << 19, 4096).expect("a layout");
    heap.allocate(largest).expect("the parts are whole again");
}

#[test]
fn a_block_takes_no_more_than_its_units() {
    let heap = heap(64 << 20);
    let large = heap.allocate(Layout::from_size_align(33 << 20, 16).expect("a layout"));
    let rest = heap.allocate(Layout::from_size_align(16 << 20, 16).expect("a layout"));
    assert_eq!(heap.used_bytes(), 49 << 20);
    drop((large.expect("room"), rest.expect("room for more than a power of two leaves")));
    let error = heap.allocate(Layout::from_size_align(1 << 40, 16).expect("a layout"));
    assert!(error.expect_err("too large").kind() == ErrorKind::Exhausted);
    let error = heap.allocate(Layout::from_size_align(16, 1 << 45).expect("a layout"));
    assert!(error.expect_err("no such address").kind() == ErrorKind::InvalidArgument);
    let line = self::heap(64);
    let blocks: Vec<_> = (0..4).map(|word: u64| line.copy(&[word]).expect("room")).collect();
    line.copy(&[4_u64]).expect_err("four units are used");
    drop(blocks);
}

#[test]
fn a_million_small_blocks_come_and_go_and_memory_returns() {
    const BLOCKS: u64 = 1_000_000;
    let heap = heap(64 << 20);
    let mut blocks: Vec<_> =
        (0..BLOCKS).map(|number| heap.copy(&[number, !number]).expect("room")).collect();
    assert_eq!(heap.used_bytes(), 16 * BLOCKS);
    assert!((16 * BLOCKS..17 * BLOCKS).contains(&taken(&heap)), "{}", taken(&heap));
    for (number, block) in (0..).zip(&blocks).step_by(97) {
        let mut pair = [0_u64; 2];
        heap.region().read_into(block.offset(), &mut pair);
        assert_eq!(pair, [number, !number]);
    }
    // Every second one first, so that free parts lie between blocks.
    let mut number = 0;
    blocks.retain(|_| {
        number += 1;
        number % 2 == 0
    });
    heap.trim().expect("trimmed");
    assert!(taken(&heap) >= 16 * BLOCKS, "no page is free");
    drop(blocks);
    assert_eq!(heap.used_bytes(), 0);
    heap.trim().expect("trimmed");
    assert_eq!(taken(&heap), 0);
    let all = heap.allocate(Layout::from_size_align(64 << 20, 16).expect("a layout"));
    assert_eq!(all.expect("all of it").offset(), 0);
}

#[test]
fn what_a_region_contains_does_not_matter_to_its_heap() {
    let heap = heap(1 << 20);
    let scribble = |value: u64| {
        heap.region().words().iter().for_each(|word| word.store(value, Ordering::Relaxed));
    };
    let mut random = Random::new(11);
    let mut blocks = Vec::new();
    for _ in 0..1000 {
        scribble(random.word());
        blocks.push(heap.allocate(Layout::from_size_align(random.index(900), 8).expect("small")));
        if random.one_in(2) {
            drop(blocks.swap_remove(random.index(blocks.len())));
        }
    }
    drop(blocks);
    assert_eq!(heap.used_bytes(), 0);
    let all = heap.allocate(Layout::from_size_align(1 << 20, 16).expect("a layout"));
    assert_eq!(all.expect("all of it").offset(), 0);
}
