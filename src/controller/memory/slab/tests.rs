//! Slabs without an executor: pages, and the memory behind them.

use super::*;
use crate::error::ErrorKind;
use crate::wire::layout::SEGMENT_WORDS;

/// A segment in place of the first lane's.
fn first() -> Arc<Segment> {
    Arc::new(Segment::create(c"test", SEGMENT_WORDS as u64 * 8, false).expect("memory"))
}

fn slab() -> Slab {
    let mut slab = Slab::new(0, Placement::Near, each([1 << 20; 3]), &first()).expect("memory");
    slab.reserved_at(ExecutorAddr::new(0x7000_0000_0000)).expect("an address");
    slab
}

fn each(bytes: [u64; 3]) -> PerProt<u64> {
    let [code, constants, data] = bytes;
    PerProt { code, constants, data }
}

fn allocate(slab: &Slab, bytes: PerProt<u64>, stored: u64) -> Option<Pages> {
    let mut pages = Pages::default();
    slab.allocate(bytes, stored, &mut pages).expect("memory").map(|()| pages)
}

fn allocated(slab: &Slab, bytes: [u64; 3]) -> Pages {
    allocate(slab, each(bytes), bytes[2]).expect("room")
}

/// The bytes of memory that the data takes.
fn held(slab: &Slab) -> u64 {
    let file = slab.stripes[Prot::Data.index()].segment.file().expect("a file");
    nix::sys::stat::fstat(file).expect("a file").st_blocks.cast_unsigned() * 512
}

fn free(slab: &Slab, pages: Pages) {
    assert!(slab.free(slab.base(&pages), false).expect("it is allocated"), "it has no actions");
}

/// A11: such a seal would keep the memory of the data for ever.
#[test]
fn no_process_adds_a_seal_to_shared_memory() {
    use nix::fcntl::{FcntlArg, SealFlag, fcntl};

    let (slab, first) = (slab(), first());
    let lane = first.file().expect("a file");
    for file in slab.files().expect("files").into_iter().chain([lane]) {
        let seals = [SealFlag::F_SEAL_FUTURE_WRITE, SealFlag::F_SEAL_WRITE, SealFlag::F_SEAL_SEAL];
        for seal in seals {
            let added = fcntl(file, FcntlArg::F_ADD_SEALS(seal));
            assert_eq!(added, Err(nix::errno::Errno::EPERM), "{seal:?}");
        }
    }
}

#[test]
fn freed_pages_are_used_again_and_holes_coalesce() {
    let slab = slab();
    let first = allocated(&slab, [1, 4096, 4097]);
    let bytes = Prot::ALL.map(|prot| slab.part(&first, prot).bytes());
    assert_eq!(bytes, [4096, 4096, 8192]);
    let second = allocated(&slab, [4096; 3]);
    let third = allocated(&slab, [4096; 3]);
    free(&slab, first);
    free(&slab, third);
    let again = allocated(&slab, [1; 3]);
    assert_eq!(slab.part(&again, Prot::Code), slab.part(&first, Prot::Code));
    free(&slab, second);
    assert_eq!(slab.page_table.lock().allocators[0].free.largest(), 256 - 1, "one hole is left");
}

#[test]
fn code_that_rests_is_used_again_when_no_other_is_left() {
    let slab = slab();
    slab.let_code_rest();
    let code = |pages: &Pages| slab.part(pages, Prot::Code);
    let [first, second] = [(); 2].map(|()| allocated(&slab, [4096; 3]));
    free(&slab, first);
    free(&slab, second);
    let third = allocated(&slab, [4096; 3]);
    assert_eq!(code(&third).start, code(&second).end, "behind the code that rests");
    assert_eq!(slab.part(&third, Prot::Data), slab.part(&first, Prot::Data), "data does not rest");
    // All but the first two pages and the third.
    allocated(&slab, [(1 << 20) - 3 * 4096, 0, 0]);
    let again = allocated(&slab, [4096; 3]);
    assert_eq!(code(&again), code(&first), "the code that has rested longest");
    assert!(allocate(&slab, each([8192, 0, 0]), 0).is_none(), "one page is left");
    assert_eq!(code(&allocated(&slab, [4096, 0, 0])), code(&second));
}

#[test]
fn no_number_comes_twice_in_a_session() {
    let mut low = Slab::new(1, Placement::Low, each([1 << 20; 3]), &first()).expect("memory");
    low.reserved_at(ExecutorAddr::new(0x1000_0000)).expect("an address");
    let mut numbers = Vec::new();
    for slab in [slab(), low] {
        for _ in 0..3 {
            let pages = allocated(&slab, [1, 0, 0]);
            numbers.extend([pages.number(), slab.draw()]);
            free(&slab, pages);
        }
    }
    let all = numbers.len();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), all);
    assert!(!numbers.contains(&0), "that is no code");
}

#[test]
fn a_full_stripe_allocates_nothing_of_the_others() {
    let slab = slab();
    let bytes = each([4096, 4096, (1 << 20) + 1]);
    assert!(allocate(&slab, bytes, bytes.data).is_none(), "too much");
    let all = allocated(&slab, [1 << 20; 3]);
    free(&slab, all);
}

#[test]
fn code_cannot_be_mapped_writable_again() {
    let slab = slab();
    let [code, constants, data] = slab.files().expect("descriptors");
    for (file, allowed) in [(code, false), (constants, false), (data, true)] {
        let file = file.try_clone_to_owned().expect("a descriptor");
        assert_eq!(Segment::open(file).is_ok(), allowed);
    }
}

#[test]
fn reused_pages_come_back_zeroed() {
    let slab = slab();
    let first = allocated(&slab, [0, 0, 8192]);
    slab.write(&first, Prot::Data, &[0xff; 8192]);
    free(&slab, first);
    let second = allocated(&slab, [0, 0, 8192]);
    slab.write(&second, Prot::Data, &[1, 2, 3]);
    let words = &slab.stripes[Prot::Data.index()].segment.words()[..1024];
    let load = |at: usize| words[at].load(crate::sync::Ordering::Relaxed);
    assert_eq!(load(0), 0x0003_0201);
    assert!((1..1024).all(|at| load(at) == 0));
}

#[test]
fn zero_fill_takes_no_memory_before_it_is_touched() {
    let slab = slab();
    let data = each([0, 0, 512 << 10]);
    let stripe = &slab.stripes[Prot::Data.index()];
    let byte = |at: usize| stripe.segment.words()[at / 8].load(Ordering::Relaxed);
    let fill = |pages: &Pages| {
        assert!((0..512 << 10).step_by(4096).all(|at| byte(at) == 0), "it is zero");
        let range = slab.part(pages, Prot::Data);
        slab.store(range.start, &[1; 512 << 10]);
    };
    for _ in 0..3 {
        // Memory that was stored, and zero fill, in turn at the same addresses.
        let pages = allocate(&slab, data, 4096).expect("room");
        slab.write(&pages, Prot::Data, &[]);
        assert!(held(&slab) <= 64 << 10, "only what is stored has memory");
        fill(&pages);
        assert_eq!(held(&slab), 512 << 10);
        free(&slab, pages);
        assert!(held(&slab) <= 64 << 10, "the memory is free again");
        let pages = allocate(&slab, data, data.data).expect("room");
        assert_eq!(held(&slab), 512 << 10, "stored data has memory");
        slab.write(&pages, Prot::Data, &[]);
        fill(&pages);
        free(&slab, pages);
    }
    let pages = allocate(&slab, data, 4096).expect("room");
    slab.write(&pages, Prot::Data, &[]);
    fill(&pages);
    let AddrRange { start, end } = slab.part(&pages, Prot::Data);
    slab.zero(AddrRange { start: start.checked_add(9).expect("an address"), end });
    assert_eq!((byte(0), byte(8), byte(16), byte(4096)), (u64::MAX / 255, 1, 0, 0));
    assert!(held(&slab) <= 64 << 10, "it has no memory");
}

#[test]
fn memory_with_actions_is_freed_after_they_have_run() {
    let slab = slab();
    let base = slab.base(&allocated(&slab, [0, 1 << 20, 1]));
    slab.has_actions(base);
    assert!(!slab.free(base, false).expect("it is allocated"));
    assert!(allocate(&slab, each([0, 1, 0]), 0).is_none(), "not free yet");
    assert!(slab.free(base, true).expect("it is allocated"));
    let again = allocated(&slab, [0, 1 << 20, 1]);
    assert_eq!(slab.base(&again), base);
    let ends = [
        slab.part(&again, Prot::Data).start,
        slab.part(&again, Prot::Data).end,
        ExecutorAddr::NULL,
    ];
    for other in ends {
        assert!(slab.free(other, true).expect_err("none").kind() == ErrorKind::InvalidArgument);
    }
    free(&slab, again);
    assert!(slab.free(base, false).expect_err("gone").kind() == ErrorKind::InvalidArgument);
}
