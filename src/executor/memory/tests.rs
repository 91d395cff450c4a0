//! The memory map: each test of the specification's checklist by its name, and what upstream does not test.
#![expect(clippy::cast_possible_truncation, reason = "the numbers of these tests are small")]

mod contention;
mod detach;
mod model;
mod process_maps;
mod random;

use std::cell::RefCell;
use std::sync::Arc;

use nix::fcntl::SealFlag;

use self::process_maps::{Maps, read_byte};
use super::{MemoryMap, Segment};
use crate::call::contract::{Action, Placement, Remote};
use crate::error::{Error, ErrorKind, Result};
use crate::executor::entry::wrapper::{Serve, offer};
use crate::limits::{KEPT_BYTES_MAX, PAGE_BYTES};
use crate::sps::{self, AllocGroup, Bytes, Lifetime};
use crate::sys::memory::memfd;
use crate::{AddrRange, ExecutorAddr, Prot};

const STRIPE: u64 = 16 * PAGE_BYTES;

/// Notes with this number or a greater one fail.
const FAILING: u32 = 900;

thread_local! {
    /// The numbers of this thread's actions, in the order in which they ran.
    static LOG: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
    /// The operations that this thread's actions perform on the memory map, by action number.
    static REENTRY: RefCell<Vec<Box<dyn FnOnce()>>> = const { RefCell::new(Vec::new()) };
}

/// An action that records its number; some numbers fail.
enum Note {}

impl Remote for Note {
    type Args = (u32,);
    type Ret = ();
    const NAME: &'static str = "note";
}

impl Serve for Note {
    fn serve((number,): (u32,)) -> Result<()> {
        LOG.with_borrow_mut(|log| log.push(number));
        if number % 1000 >= FAILING {
            Err(Error::remote(format!("{number} fails")))
        } else {
            Ok(())
        }
    }
}

/// An action that performs the operation that [`reentry`] set last.
enum Reenter {}

impl Remote for Reenter {
    type Args = ();
    type Ret = ();
    const NAME: &'static str = "reenter";
}

impl Serve for Reenter {
    fn serve((): ()) -> Result<()> {
        let what = REENTRY.with_borrow_mut(Vec::pop).expect("said what to do");
        what();
        Ok(())
    }
}

fn note(number: u32) -> Action {
    (offer::<Note>().1, Bytes(sps::to_bytes(&(number,))))
}

fn pair(finalize: u32, dealloc: u32) -> (Action, Action) {
    (note(finalize), note(dealloc))
}

fn reentry(what: impl FnOnce() + 'static) -> Action {
    REENTRY.with_borrow_mut(|all| all.push(Box::new(what)));
    (offer::<Reenter>().1, Bytes::default())
}

/// The numbers of this thread's actions since the last call of this function.
fn noted() -> Vec<u32> {
    LOG.take()
}

fn shared(map: &MemoryMap) -> ExecutorAddr {
    let file = |prot| memfd::create(c"test", STRIPE, prot == Prot::Code).expect("memory");
    let files = Prot::ALL.map(file).into();
    map.reserve_shared(Placement::Near, files).expect("a slab").0
}

fn with_private(pages: u64) -> (MemoryMap, ExecutorAddr) {
    let map = MemoryMap::default();
    let slab = map.reserve_private(pages * PAGE_BYTES).expect("a slab");
    (map, slab)
}

/// Pages of a shared slab, by their number in the stripe.
fn in_stripe(slab: ExecutorAddr, prot: Prot, page: u64, pages: u64) -> Segment {
    let start = ExecutorAddr::new(slab.get() + prot.index() as u64 * STRIPE + page * PAGE_BYTES);
    Segment { group: AllocGroup::standard(prot), start, bytes: pages * PAGE_BYTES, content: None }
}

/// Pages of a private slab, with content.
fn filled(slab: ExecutorAddr, prot: Prot, page: u64, pages: u64, content: &[u8]) -> Segment {
    let start = ExecutorAddr::new(slab.get() + page * PAGE_BYTES);
    let content = Some(content.to_vec());
    Segment { group: AllocGroup::standard(prot), start, bytes: pages * PAGE_BYTES, content }
}

fn temporary(mut segment: Segment) -> Segment {
    segment.group.lifetime = Lifetime::Finalize;
    segment
}

fn protections(start: ExecutorAddr, pages: u64) -> String {
    let range = AddrRange::sized(start, pages * PAGE_BYTES).expect("no overflow");
    Maps::read().letters(range)
}

/// Replaces a page of the slab by one whose protection the kernel refuses to make writable.
fn sabotage(map: &MemoryMap, slab: ExecutorAddr, page: u64) {
    let file = memfd::create(c"sabotage", PAGE_BYTES, false).expect("memory");
    memfd::seal(&file, SealFlag::F_SEAL_FUTURE_WRITE).expect("sealed");
    let memory = map.state.lock().slabs[&slab].memory();
    let page = page * PAGE_BYTES;
    memory.reservation().map(page, PAGE_BYTES, Prot::Constants, file).expect("mapped");
}

// SimpleNativeMemoryMapTest

#[test]
fn create_and_destroy() {
    let (map, slab) = with_private(1);
    assert_eq!(protections(slab, 1), "w");
    drop(map);
    drop(MemoryMap::default());
}

#[test]
fn reserve_and_release() {
    let (map, slab) = with_private((1 << 30) / PAGE_BYTES);
    let last = ExecutorAddr::new(slab.get() + (1 << 30) - PAGE_BYTES);
    assert_eq!((protections(slab, 1), protections(last, 1)), ("w".to_owned(), "w".to_owned()));
    map.release(&[slab]).expect("released");
    let error = map.release(&[slab]).expect_err("it is gone").to_string();
    assert!(error.contains(&slab.to_string()), "{error}");
}

#[test]
fn full_pipeline_for_one_rw_segment() {
    let (map, slab) = with_private(64);
    let segment = filled(slab, Prot::Data, 16, 2, b"hello");
    let start = segment.start;
    let check = reentry(move || {
        assert_eq!([0, 4, 5, 4096, 8191].map(|at| read_byte(start, at)), [b'h', b'o', 0, 0, 0]);
    });
    let actions = vec![pair(1, 11), (check, note(12)), pair(3, 13)];
    let base = map.initialize(&[segment], actions).expect("initialized");
    assert_eq!((base, noted()), (start, vec![1, 3]));
    map.deinitialize(&[base]).expect("deinitialized");
    assert_eq!(noted(), [13, 12, 11]);
    map.release(&[slab]).expect("released");
    assert_eq!(noted(), [0; 0]);
}

#[test]
fn reserve_initialize_shutdown() {
    let (map, slab) = with_private(4);
    let segments = [filled(slab, Prot::Code, 0, 1, &[0xc3])];
    map.initialize(&segments, vec![pair(1, 11), pair(2, 12)]).expect("initialized");
    assert_eq!(noted(), [1, 2]);
    assert_eq!(map.shut_down(), [""; 0]);
    assert_eq!(noted(), [12, 11]);
    assert_eq!(map.shut_down(), [""; 0], "once more changes nothing");
    for refused in [map.reserve_private(PAGE_BYTES), map.initialize(&segments, vec![])] {
        assert!(refused.expect_err("it is over").is_disconnected());
    }
    assert!(map.deinitialize(&[slab]).is_err() && map.release(&[slab]).is_err());
}

#[test]
fn reserve_rejects_non_page_size_multiple() {
    let map = MemoryMap::default();
    for bytes in [0, 1, 100, PAGE_BYTES + 1, u64::MAX] {
        let error = map.reserve_private(bytes).expect_err("refused");
        assert!(error.to_string().contains(&bytes.to_string()), "{error}");
    }
    const LARGEST: u64 = (1 << 63) - PAGE_BYTES;
    let file = |bytes: &u64| memfd::create(c"test", *bytes, false).expect("memory");
    for bytes in [&[STRIPE, 0, STRIPE][..], &[STRIPE, 100, STRIPE], &[STRIPE; 2], &[LARGEST; 3]] {
        let files = bytes.iter().map(file).collect();
        assert!(map.reserve_shared(Placement::Near, files).is_err(), "{bytes:?}");
    }
    assert!(map.state.lock().slabs.is_empty());
}

#[test]
fn reserve_accepts_page_size_multiple() {
    for pages in [1, 2, 3, 17] {
        let (map, slab) = with_private(pages);
        assert_eq!(protections(slab, pages), "w".repeat(pages.try_into().expect("small")));
        map.release(&[slab]).expect("released");
    }
}

#[test]
fn address_space_that_runs_out_is_an_error() {
    let (map, slab) = with_private(1);
    for bytes in [1 << 47, 1 << 63] {
        let error = map.reserve_private(bytes).expect_err("too much");
        assert_eq!(error.raw_os_error(), Some(nix::errno::Errno::ENOMEM as i32), "{error}");
    }
    map.release(&[slab]).expect("what there was is there");
}

#[test]
fn release_multiple_reports_errors() {
    let map = MemoryMap::default();
    let slabs = [1, 2, 3].map(|pages| map.reserve_private(pages * PAGE_BYTES).expect("a slab"));
    let bad = [0x1000, slabs[2].get() + PAGE_BYTES].map(ExecutorAddr::new); // none starts inside of the third
    let list = [slabs[0], bad[0], slabs[1], bad[1], slabs[2], slabs[1]];
    let error = map.release(&list).expect_err("three are bad").to_string();
    for address in [bad[0], bad[1], slabs[1]] {
        assert!(error.contains(&address.to_string()), "{address} in {error}");
    }
    assert!(!error.contains(&format!("{} ", slabs[2])), "{error}");
    assert!(map.state.lock().slabs.is_empty(), "the good ones are gone");
}

#[test]
fn deinitialize_multiple_reports_errors() {
    let (map, slab) = with_private(8);
    let init = |page: u32| {
        let segment = filled(slab, Prot::Data, page.into(), 1, b"x");
        map.initialize(&[segment], vec![pair(page, page + 10)]).expect("initialized")
    };
    let [first, second, third] = [5, 1, 3].map(init);
    noted();
    let missing = ExecutorAddr::new(0x1000);
    let list = [third, missing, first, third, second];
    let error = map.deinitialize(&list).expect_err("two are bad").to_string();
    assert!(error.contains("nothing is initialized at 0x1000"), "{error}");
    assert!(error.contains(&format!("{third} is being deinitialized already")), "{error}");
    assert_eq!(noted(), [13, 11, 15], "the newest first, whatever the order of the list");
    let error = map.deinitialize(&[first]).expect_err("a double free").to_string();
    assert!(error.contains(&first.to_string()), "{error}");
}

#[test]
fn more_than_1e5_addresses_in_one_release() {
    let map = MemoryMap::default();
    let slab = map.reserve_private(PAGE_BYTES).expect("a slab");
    let mut list: Vec<_> = (1..=120_000).map(|page| ExecutorAddr::new(page * 16)).collect();
    list.push(slab);
    let error = map.release(&list).expect_err("most are bad").to_string();
    assert_eq!(error.matches("no slab starts at").count(), 120_000);
    assert!(error.contains(" 0x1d4c00"), "the last bad one is named");
    assert_eq!(map.deinitialize(&list).expect_err("all").to_string().matches(';').count(), 120_000);
    assert!(map.state.lock().slabs.is_empty());
}

// Which requests are valid

#[test]
fn requests_are_refused_whole() {
    let map = MemoryMap::default();
    let (striped, plain) = (shared(&map), map.reserve_private(STRIPE).expect("a slab"));
    let other = map.reserve_private(STRIPE).expect("a slab");
    map.initialize(&[in_stripe(striped, Prot::Data, 4, 4)], vec![]).expect("initialized");
    map.initialize(&[filled(plain, Prot::Code, 4, 4, b"live")], vec![]).expect("initialized");
    let code = in_stripe(striped, Prot::Code, 0, 1);
    let data = filled(plain, Prot::Data, 0, 1, b"content");
    let with = |segment: &Segment, change: fn(&mut Segment)| {
        let mut segment = segment.clone();
        change(&mut segment);
        vec![data.clone(), segment]
    };
    let moved = |segment: &Segment, by: u64| {
        let start = ExecutorAddr::new(segment.start.get().wrapping_add(by));
        vec![data.clone(), Segment { start, ..segment.clone() }]
    };
    let refused = [
        vec![],
        vec![temporary(code.clone())],
        with(&data, |one| one.bytes = 0),
        with(&data, |one| one.bytes = 100),
        with(&data, |one| one.bytes = !(PAGE_BYTES - 1)),
        with(&data, |one| one.content = Some(vec![1; 4097])),
        moved(&data, 8),
        moved(&data, 0),
        moved(&data, 5 * PAGE_BYTES),
        moved(&data, STRIPE),
        moved(&data, STRIPE - PAGE_BYTES + 1),
        moved(&data, data.start.get().wrapping_neg()),
        moved(&data, PAGE_BYTES.wrapping_sub(data.start.get())),
        vec![data.clone(), temporary(data.clone())],
        vec![filled(plain, Prot::Data, 3, 2, b"overlaps a live one")],
        vec![filled(plain, Prot::Data, 0, 16, b"holds a live one")],
        vec![filled(plain, Prot::Data, 15, 2, b"passes the end")],
        vec![data.clone(), filled(other, Prot::Data, 0, 1, b"another slab")],
        vec![code.clone(), code.clone()],
        vec![code.clone(), in_stripe(striped, Prot::Data, 7, 2)],
        vec![in_stripe(striped, Prot::Data, 15, 2)],
        vec![in_stripe(striped, Prot::Code, 15, 2)],
        vec![Segment { group: AllocGroup::standard(Prot::Data), ..code.clone() }],
        vec![Segment { content: Some(vec![]), ..code.clone() }],
    ];
    let before = protections(plain, 16);
    for (number, request) in refused.iter().enumerate() {
        let error = map.initialize(request, vec![pair(1, 2)]).expect_err("refused");
        assert!(error.kind() == ErrorKind::InvalidArgument, "{number}: {error}");
    }
    assert_eq!(noted(), [0; 0], "no action ran");
    assert_eq!((read_byte(data.start, 0), protections(plain, 16)), (0, before), "nothing written");
    map.initialize(&[code], vec![]).expect("nothing of the refused stayed");
    map.initialize(&[data], vec![]).expect("nothing of the refused stayed");
    println!("requests refused whole: {} cases", refused.len());
}

#[test]
fn content_may_be_in_the_slab_already() {
    let (map, slab) = with_private(2);
    let write = filled(slab, Prot::Data, 0, 2, b"written before");
    let base = map.initialize(std::slice::from_ref(&write), vec![]).expect("initialized");
    let memory = map.state.lock().slabs[&slab].memory();
    map.deinitialize(&[base]).expect("deinitialized");
    memory.fill(&[write]).expect("as other code might write it");
    let mut there = filled(slab, Prot::Code, 0, 1, b"");
    there.content = None;
    map.initialize(&[there], vec![]).expect("initialized");
    assert_eq!((read_byte(slab, 0), protections(slab, 2)), (b'w', "xw".to_owned()));
}

#[test]
fn memory_is_filled_protected_and_taken_back() {
    let (map, slab) = with_private(8);
    let segments = [
        filled(slab, Prot::Code, 0, 1, &[7; 4096]),
        filled(slab, Prot::Constants, 1, 2, &[8; 4097]),
        filled(slab, Prot::Data, 3, 2, &[]),
        temporary(filled(slab, Prot::Code, 5, 1, &[9; 10])),
    ];
    let start = slab;
    let seen = reentry(move || {
        assert_eq!(protections(start, 8), "xrrwwxww");
        assert_eq!(read_byte(start, 5 * 4096 + 9), 9);
    });
    let base = map.initialize(&segments, vec![(seen, note(1))]).expect("initialized");
    assert_eq!(
        protections(slab, 8),
        "xrrwwwww",
        "what was needed to initialize only is taken back"
    );
    assert_eq!([5 * 4096, 4095, 4096, 8192, 8193].map(|at| read_byte(slab, at)), [0, 7, 8, 8, 0]);
    let again = filled(slab, Prot::Constants, 5, 1, b"of use again");
    map.initialize(&[again], vec![]).expect("initialized");
    map.deinitialize(&[base]).expect("deinitialized");
    assert_eq!(protections(slab, 8), "wwwwwrww");
    assert!((0..5).all(|page| read_byte(slab, page * 4096) == 0), "empty again");
    map.initialize(&segments[..3], vec![]).expect("the pages can be used again");
}

#[test]
fn stored_content_keeps_its_memory() {
    let (map, slab) = with_private(16);
    let kept = || map.state.lock().kept.bytes() / PAGE_BYTES;
    let segments = [
        filled(slab, Prot::Constants, 0, 3, &[1; 4097]),
        filled(slab, Prot::Data, 3, 1, &[2; 4096]),
        temporary(filled(slab, Prot::Code, 4, 1, &[3; 4096])),
        filled(slab, Prot::Code, 5, 2, &[4; 8191]),
        filled(slab, Prot::Code, 9, 1, &[]),
        Segment { content: None, ..filled(slab, Prot::Code, 10, 1, &[]) },
    ];
    let base = map.initialize(&segments, vec![]).expect("initialized");
    assert_eq!(kept(), 0, "it is in use, or others may have written it");
    map.deinitialize(&[base]).expect("deinitialized");
    assert_eq!(kept(), 4, "two pages of constants, two of code");
    assert_eq!(protections(slab, 16), "w".repeat(16));
    assert!((0..16 * PAGE_BYTES).all(|at| read_byte(slab, at) == 0), "every byte of it");

    let one = map.initialize(&[filled(slab, Prot::Code, 1, 5, &[5])], vec![]).expect("initialized");
    assert_eq!(kept(), 2, "what is in use again is not kept");
    assert!((1..5 * PAGE_BYTES).all(|at| read_byte(one, at) == 0), "nothing of before is left");
    let other = map.reserve_private(PAGE_BYTES).expect("a slab");
    map.initialize(&[filled(other, Prot::Code, 0, 1, &[6])], vec![]).expect("initialized");
    map.deinitialize(&[one, other]).expect("deinitialized");
    assert_eq!(kept(), 4);
    map.release(&[slab]).expect("released");
    assert_eq!(kept(), 1, "what is gone is not kept");
    map.release(&[other]).expect("released");
    assert_eq!(kept(), 0);
}

#[test]
fn memory_is_kept_up_to_a_limit() {
    let most = KEPT_BYTES_MAX / PAGE_BYTES;
    let (map, slab) = with_private(2 * most);
    let half = vec![7; KEPT_BYTES_MAX as usize / 2];
    let all = [0, 1, 2, 3].map(|number| {
        let segment = filled(slab, Prot::Code, number * most / 2, most / 2, &half);
        map.initialize(&[segment], vec![]).expect("initialized")
    });
    map.deinitialize(&all[..3]).expect("deinitialized");
    assert_eq!(map.state.lock().kept.bytes(), KEPT_BYTES_MAX);
    map.deinitialize(&all[3..]).expect("deinitialized");
    assert_eq!(map.state.lock().kept.bytes(), KEPT_BYTES_MAX);
    assert!((0..4 * half.len() as u64).all(|at| read_byte(slab, at) == 0), "all of it is empty");
    map.release(&[slab]).expect("released");
    assert_eq!(map.state.lock().kept.bytes(), 0);
}

// Failures of single steps

#[test]
fn initialize_fails_at_each_step() {
    let mut cases = 0;
    for step in 0..4 {
        let (map, slab) = with_private(8);
        sabotage(&map, slab, step * 2);
        let whole = |prot: fn(u64) -> Prot| {
            (0..4).map(|page| filled(slab, prot(page), page * 2, 1, &[1; 4096])).collect::<Vec<_>>()
        };
        for segments in [whole(|_| Prot::Code), whole(|page| Prot::ALL[page as usize % 3])] {
            let error = map.initialize(&segments, vec![pair(1, 2)]).expect_err("a bad page");
            let at = segments[step as usize].start.to_string();
            assert!(error.to_string().contains(&at), "{at} in {error}");
            let sane = (0..8).filter(|page| *page != step * 2);
            for page in sane {
                let start = ExecutorAddr::new(slab.get() + page * 4096);
                assert_eq!((protections(start, 1).as_str(), read_byte(start, 0)), ("w", 0));
            }
            cases += 1;
        }
        assert_eq!(noted(), [0; 0], "no action ran");
        assert!(map.state.lock().regions.is_empty());
    }
    assert_eq!(cases, 8);
}

#[test]
fn a_failing_action_undoes_those_before_it() {
    let map = MemoryMap::default();
    let (striped, plain) = (shared(&map), map.reserve_private(STRIPE).expect("a slab"));
    for segment in [in_stripe(striped, Prot::Data, 0, 1), filled(plain, Prot::Code, 0, 1, b"code")]
    {
        let segments = [segment];
        for failing in 0..4 {
            let mut actions = vec![pair(1, 11), pair(2, 902), pair(3, 13), pair(4, 14)];
            actions[failing].0 = note(950);
            let error = map.initialize(&segments, actions).expect_err("950 fails").to_string();
            assert!(error.contains(&format!("action {failing}")), "{error}");
            assert!(error.contains("950 fails"), "{error}");
            assert_eq!(
                error.contains("902 fails"),
                failing > 1,
                "the error includes the clean-up: {error}"
            );
            let ran = noted();
            let forth = (1..=3).take(failing).chain([950]);
            let back = [11, 902, 13].into_iter().take(failing).rev();
            assert_eq!(ran, forth.chain(back).collect::<Vec<u32>>());
        }
        let base = map.initialize(&segments, vec![]).expect("the pages are free again");
        map.deinitialize(&[base]).expect("deinitialized");
    }
    assert_eq!((protections(plain, 16), read_byte(plain, 0)), ("w".repeat(16), 0));
}

#[test]
fn memory_that_cannot_be_taken_back_is_undone_with_its_actions() {
    let (map, slab) = with_private(2);
    let map = Arc::new(map);
    let inner = Arc::clone(&map);
    let spoil = reentry(move || sabotage(&inner, slab, 1));
    let segments = [
        filled(slab, Prot::Code, 0, 1, b"code"),
        temporary(filled(slab, Prot::Data, 1, 1, b"init")),
    ];
    let error = map.initialize(&segments, vec![pair(1, 11), (spoil, note(12))]);
    let error = error.expect_err("the page cannot be emptied").to_string();
    assert!(error.contains("needed to initialize only"), "{error}");
    assert_eq!(noted(), [1, 12, 11], "no dealloc action is lost");
    assert_eq!((protections(slab, 1).as_str(), read_byte(slab, 0)), ("w", 0));
    assert!(map.state.lock().regions.is_empty());
}

#[test]
fn dealloc_failures_are_told_and_stop_nothing() {
    let (map, slab) = with_private(4);
    let bases = [0, 1].map(|page| {
        let segment = filled(slab, Prot::Data, page, 1, b"x");
        map.initialize(&[segment], vec![pair(1, 901), pair(2, 12)]).expect("initialized")
    });
    noted();
    let error = map.deinitialize(&bases).expect_err("901 fails").to_string();
    assert_eq!(error.matches("901 fails").count(), 2, "{error}");
    assert!(bases.iter().all(|base| error.contains(&base.to_string())), "{error}");
    assert_eq!(noted(), [12, 901, 12, 901]);
    assert!(map.state.lock().regions.is_empty(), "the pages are free even so");
}

// Order

#[test]
fn ranges_removed_together_go_newest_first_across_slabs() {
    let ends: [fn(&MemoryMap, &[ExecutorAddr]); 2] = [
        |map, slabs| map.release(slabs).expect("released"),
        |map, _| assert_eq!(map.shut_down(), [""; 0]),
    ];
    for end in ends {
        let map = MemoryMap::default();
        let plain = map.reserve_private(STRIPE).expect("a slab");
        let slabs = [plain, shared(&map), map.reserve_private(STRIPE).expect("a slab")];
        for number in 0..12_u32 {
            let page = u64::from(11 - number);
            let segment = match number % 3 {
                1 => in_stripe(slabs[1], Prot::Constants, page, 1),
                slab => filled(slabs[slab as usize], Prot::Code, page, 1, b"x"),
            };
            let actions = vec![pair(2 * number, 2 * number), pair(2 * number + 1, 2 * number + 1)];
            map.initialize(&[segment], actions).expect("initialized");
        }
        assert_eq!(noted(), (0..24).collect::<Vec<_>>());
        end(&map, &[slabs[1], slabs[2], slabs[0]]);
        assert_eq!(noted(), (0..24).rev().collect::<Vec<_>>());
    }
}

// Re-entry

#[test]
fn actions_may_use_the_memory_map() {
    let (map, slab) = with_private(8);
    let map = Arc::new(map);
    let page = move |page: u64| filled(slab, Prot::Data, page, 1, b"x");
    let at = move |page: u64| ExecutorAddr::new(slab.get() + page * PAGE_BYTES);

    let (inner, none) = (Arc::clone(&map), Action::default());
    let more = reentry(move || {
        let other = inner.reserve_private(PAGE_BYTES).expect("reserved by an action");
        inner.initialize(&[page(3)], vec![pair(3, 13)]).expect("initialized by an action");
        let taken = inner.initialize(&[page(0)], vec![]).expect_err("that is under way");
        assert!(taken.to_string().contains("in use"), "{taken}");
        let early = inner.deinitialize(&[at(0)]).expect_err("that is under way");
        assert!(early.to_string().contains("still being initialized"), "{early}");
        let busy = inner.release(&[slab]).expect_err("that is in use");
        assert!(busy.to_string().contains("stays"), "{busy}");
        inner.release(&[other]).expect("released by an action");
    });
    map.initialize(&[page(0)], vec![(more, none.clone())]).expect("initialized");
    assert_eq!(noted(), [3]);

    let inner = Arc::clone(&map);
    let others = reentry(move || {
        inner.deinitialize(&[at(3)]).expect("deinitialized by an action");
        assert!(inner.deinitialize(&[at(1)]).is_err(), "that is under way");
        assert!(inner.release(&[slab]).is_err(), "that is in use");
        inner.initialize(&[page(4)], vec![pair(4, 14)]).expect("initialized by an action");
    });
    map.initialize(&[page(1)], vec![(none.clone(), others)]).expect("initialized");
    map.deinitialize(&[at(1)]).expect("deinitialized");
    assert_eq!(noted(), [13, 4]);

    let inner = Arc::clone(&map);
    let last = reentry(move || {
        inner.deinitialize(&[at(4)]).expect("deinitialized while its slab is released");
        let late = inner.initialize(&[page(6)], vec![]).expect_err("too late");
        assert!(late.to_string().contains("being released"), "{late}");
        assert!(inner.release(&[slab]).is_err(), "that is being done");
    });
    map.initialize(&[page(5)], vec![(none, last)]).expect("initialized");
    map.release(&[slab]).expect("released");
    assert_eq!(noted(), [14]);
    assert!(map.state.lock().slabs.is_empty() && map.state.lock().regions.is_empty());
}

#[test]
fn memory_initialized_during_the_shutdown_is_undone() {
    let (map, slab) = with_private(2);
    let map = Arc::new(map);
    let inner = Arc::clone(&map);
    let end = reentry(move || {
        let failures = inner.shut_down();
        assert!(failures.len() == 1 && failures[0].contains("stays"), "{failures:?}");
    });
    let segment = filled(slab, Prot::Code, 0, 1, b"x");
    let error = map.initialize(&[segment], vec![pair(1, 11), (end, note(12)), pair(3, 13)]);
    let error = error.expect_err("the map is shut down").to_string();
    assert!(error.contains("shut down"), "{error}");
    assert_eq!(noted(), [1, 3, 13, 12, 11]);
    assert_eq!((protections(slab, 2).as_str(), read_byte(slab, 0)), ("ww", 0));
}
