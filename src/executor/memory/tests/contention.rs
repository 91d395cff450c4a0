//! Eight threads on one slab: no page ever belongs to two of them, and none is lost.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier};

use super::{filled, protections};
use crate::call::contract::{Action, Remote};
use crate::error::{Error, ErrorKind, Result};
use crate::executor::entry::wrapper::{Serve, offer};
use crate::executor::memory::MemoryMap;
use crate::limits::PAGE_BYTES;
use crate::sps::{self, Bytes};
use crate::{ExecutorAddr, Prot};

const PAGES: u64 = 16;
const THREADS: u64 = 8;
const ROUNDS: u64 = 2_000;

/// The owner of each page, as the actions record it; 0 is none.
static OWNERS: [AtomicU32; PAGES as usize] = [const { AtomicU32::new(0) }; PAGES as usize];

/// Changes the owner of pages and checks the previous one: first page, number of pages, from, to.
enum Pass {}

impl Remote for Pass {
    type Args = (u32, u32, u32, u32);
    type Ret = ();
    const NAME: &'static str = "pass";
}

impl Serve for Pass {
    fn serve((first, pages, from, to): (u32, u32, u32, u32)) -> Result<()> {
        for page in first..first + pages {
            let owner = &OWNERS[page as usize];
            owner.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).map_err(
                |owner| Error::remote(format!("page {page} is {owner}'s, not {from}'s")),
            )?;
        }
        Ok(())
    }
}

fn pass(args: (u32, u32, u32, u32)) -> Action {
    (offer::<Pass>().1, Bytes(sps::to_bytes(&args)))
}

#[test]
fn a_page_never_belongs_to_two_threads() {
    let map = Arc::new(MemoryMap::default());
    let slab = map.reserve_private(PAGES * PAGE_BYTES).expect("a slab");
    let start = Arc::new(Barrier::new(THREADS as usize));
    let threads: Vec<_> = (1..=THREADS)
        .map(|me| {
            let (map, start) = (Arc::clone(&map), Arc::clone(&start));
            std::thread::spawn(move || {
                start.wait();
                (0..ROUNDS).map(|round| take_and_give_back(&map, slab, me, round)).sum::<u64>()
            })
        })
        .collect();
    let taken: u64 = threads.into_iter().map(|thread| thread.join().expect("no conflict")).sum();
    assert!(taken > ROUNDS, "only {taken} were taken");
    assert!(OWNERS.iter().all(|owner| owner.load(Ordering::SeqCst) == 0));
    assert_eq!(protections(slab, PAGES), "w".repeat(PAGES as usize));
    map.release(&[slab]).expect("nothing is left in it");
    println!("one slab, {THREADS} threads: {} cases, {taken} regions taken", THREADS * ROUNDS);
}

/// Tries to initialize some pages and deinitializes them; returns 1 if they were free.
fn take_and_give_back(map: &MemoryMap, slab: ExecutorAddr, me: u64, round: u64) -> u64 {
    let first = (me * 7 + round * (2 * me + 1)) % PAGES;
    let pages = (1 + round % 3).min(PAGES - first);
    let prot = Prot::ALL[(round % 3) as usize];
    let segment = filled(slab, prot, first, pages, &me.to_le_bytes());
    let (low, count, who) = (first as u32, pages as u32, me as u32);
    let actions = vec![(pass((low, count, 0, who)), pass((low, count, who, 0)))];
    match map.initialize(&[segment], actions) {
        Ok(base) => {
            map.deinitialize(&[base]).expect("mine");
            1
        }
        Err(error) => {
            assert!(error.kind() == ErrorKind::InvalidArgument, "{error}");
            0
        }
    }
}

#[test]
fn a_slab_is_released_while_others_initialize() {
    let mut released = 0;
    for round in 0..500 {
        let map = Arc::new(MemoryMap::default());
        let slab = map.reserve_private(PAGES * PAGE_BYTES).expect("a slab");
        let start = Arc::new(Barrier::new(3));
        let others: Vec<_> = (0..2)
            .map(|thread: u64| {
                let (map, start) = (Arc::clone(&map), Arc::clone(&start));
                std::thread::spawn(move || {
                    start.wait();
                    for page in 0..PAGES / 2 {
                        let page = thread * PAGES / 2 + page;
                        let segment = filled(slab, Prot::Code, page, 1, b"x");
                        if map.initialize(&[segment], vec![]).is_err() {
                            break;
                        }
                    }
                })
            })
            .collect();
        start.wait();
        for _ in 0..round % 8 {
            std::hint::spin_loop();
        }
        while let Err(error) = map.release(&[slab]) {
            assert!(error.to_string().contains("stays"), "{error}");
        }
        released += 1;
        for other in others {
            other.join().expect("an error at most");
        }
        let state = map.state.lock();
        assert!(state.slabs.is_empty() && state.regions.is_empty() && state.kept.bytes() == 0);
    }
    println!("release against initialize: {released} cases");
}
