//! Regions alone: sizes, copies, plain data, adopted files, seals, memory that comes back.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::thread;

use memmap2::MmapOptions;
use nix::fcntl::{FallocateFlags, fallocate};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::unistd::ftruncate;

use super::*;
use crate::error::ErrorKind;
use crate::random::Random;

fn region(bytes: u64) -> Region {
    Region::new(bytes, Access::ReadWrite).expect("a region")
}

/// A memory file.
fn memory_file(flags: MFdFlags, bytes: i64) -> OwnedFd {
    let file = memfd_create(c"test", flags).expect("a memory file");
    ftruncate(&file, bytes).expect("its size");
    file
}

/// The bytes of memory that a region has taken.
fn taken(region: &Region) -> u64 {
    let file = File::from(region.file.unchecked().try_clone_to_owned().expect("a descriptor"));
    file.metadata().expect("its state").blocks() * 512
}

#[test]
fn a_line_and_64_gib_take_memory_when_they_are_touched() {
    for bytes in [64, REGION_BYTES_MAX] {
        let region = region(bytes);
        assert_eq!((region.bytes(), taken(&region)), (bytes, 0));
        let words = region.words();
        assert_eq!(words.len() as u64, bytes / 8);
        words[words.len() - 1].store(7, Ordering::Relaxed);
        assert_eq!(words[words.len() - 1].load(Ordering::Relaxed), 7);
        assert_eq!(taken(&region), 4096);
        region.populate(0, 64).expect("memory");
        assert!(taken(&region) <= 8192);
    }
    for bytes in [0, REGION_BYTES_MAX + 1, u64::MAX] {
        let error = Region::new(bytes, Access::ReadWrite).expect_err("out of bounds");
        assert!(error.kind() == ErrorKind::InvalidArgument, "{error:?}");
        assert!(error.to_string().contains("68719476736"), "{error}");
    }
}

#[test]
fn copies_are_as_in_plain_memory_at_every_offset() {
    let (region, mut model) = (region(101), vec![0_u8; 101]);
    let mut random = Random::new(7);
    for _ in 0..20_000 {
        let offset = random.index(102);
        let bytes = random.index(102 - offset);
        let new = random.bytes(bytes);
        region.write_from(offset, &new);
        model[offset..][..bytes].copy_from_slice(&new);
        let offset = random.index(102);
        let mut read = vec![0; random.index(102 - offset)];
        region.read_into(offset, &mut read);
        assert_eq!(read, model[offset..][..read.len()]);
    }
    for (offset, bytes) in [(101, 1), (0, 102), (usize::MAX, 8)] {
        let past = std::panic::catch_unwind(|| region.read_into(offset, &mut vec![0_u8; bytes]));
        assert!(past.is_err(), "{bytes} bytes at {offset}");
    }
}

#[test]
fn threads_that_write_parts_of_one_word_disturb_no_other() {
    let region = region(64);
    thread::scope(|scope| {
        for (offset, bytes) in [(0, 3), (3, 4), (7, 1), (8, 5)] {
            let region = &region;
            scope.spawn(move || {
                for round in 0..=100_000_u32 {
                    region.write_from(offset, &vec![round.to_le_bytes()[0]; bytes]);
                }
            });
        }
    });
    let mut read = [0_u8; 14];
    region.read_into(0, &mut read);
    assert_eq!(read[..13], [100_000_u32.to_le_bytes()[0]; 13]);
    assert_eq!(read[13], 0);
}

#[test]
fn plain_data_is_lent_only_while_no_other_process_writes() {
    let mut own = region(64);
    own.as_mut_slice::<u32>().expect("no process has it")[15] = 7;
    drop(own.as_fd().try_clone_to_owned());
    let refused = own.as_mut_slice::<u32>().expect_err("lent");
    assert!(refused.to_string().contains("read_into"), "{refused}");

    let mut constants = Region::new(64, Access::ReadOnly).expect("a region");
    drop(constants.as_fd().try_clone_to_owned());
    constants.as_mut_slice::<u64>().expect("sealed")[0] = 1;

    let file = memory_file(MFdFlags::MFD_ALLOW_SEALING, 64);
    let mut adopted = Region::adopt(file, Access::ReadOnly).expect("a memory file");
    adopted.as_mut_slice::<u8>().expect_err("another process may have mapped it before");
}

#[test]
fn values_outside_or_not_aligned_are_refused() {
    let region = region(64);
    let slice = |offset, count| {
        // SAFETY: no other code uses the region.
        std::panic::catch_unwind(|| unsafe { region.slice::<u64>(offset, count) }.len())
    };
    assert_eq!(slice(0, 8).expect("all of it"), 8);
    assert_eq!(slice(64, 0).expect("nothing"), 0);
    for (offset, count) in [(0, 9), (8, 8), (4, 1), (72, 0), (0, usize::MAX)] {
        assert!(slice(offset, count).is_err(), "{count} at {offset}");
    }
}

#[test]
fn an_adopted_file_keeps_its_bytes_and_cannot_shrink() {
    let file = memory_file(MFdFlags::MFD_ALLOW_SEALING, 4096);
    let mut host = File::from(file.try_clone().expect("a descriptor"));
    host.write_all(b"from before").expect("written");
    let region = Region::adopt(file, Access::ReadWrite).expect("a memory file");
    let mut read = [0; 11];
    region.read_into(0, &mut read);
    assert_eq!((&read, region.bytes()), (b"from before", 4096));
    for bytes in [0, 64, 8192] {
        host.set_len(bytes).expect_err("the size is sealed");
    }
}

#[test]
fn files_that_could_shrink_are_refused() {
    let refused = |file: OwnedFd, words: &[&str]| {
        let error = Region::adopt(file, Access::ReadWrite).expect_err("refused");
        assert!(error.kind() == ErrorKind::InvalidArgument, "{error:?}");
        for word in words {
            assert!(error.to_string().contains(word), "{error}");
        }
    };
    refused(memory_file(MFdFlags::empty(), 4096), &["could change", "MFD_ALLOW_SEALING"]);
    refused(memory_file(MFdFlags::MFD_ALLOW_SEALING, 0), &["empty", "ftruncate"]);
    let file = tempfile::tempfile().expect("a file");
    file.set_len(4096).expect("its size");
    refused(file.into(), &["memfd_create"]);
    let file = memory_file(MFdFlags::MFD_ALLOW_SEALING, 4096);
    let again = File::open(format!("/proc/self/fd/{}", file.as_raw_fd())).expect("opened again");
    refused(again.into(), &["cannot write"]);
    let sealed = memory_file(MFdFlags::MFD_ALLOW_SEALING, 4096);
    memfd::seal(&sealed, SealFlag::F_SEAL_FUTURE_WRITE).expect("sealed");
    refused(sealed, &["cannot write", "FUTURE_WRITE"]);
}

#[test]
fn no_descriptor_of_a_read_only_region_can_write() {
    let region = Region::new(8192, Access::ReadOnly).expect("a region");
    region.words()[0].store(7, Ordering::Relaxed);
    let fd = region.as_fd();
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let again = OpenOptions::new().read(true).write(true).open(path).expect("the user may");
    for mut file in [File::from(fd.try_clone_to_owned().expect("a descriptor")), again] {
        file.write_all(b"no").expect_err("sealed");
        file.set_len(0).expect_err("sealed");
        MmapOptions::new().map_raw(&file).expect_err("sealed");
        let mode = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
        fallocate(&file, mode, 0, 4096).expect_err("sealed");
        memfd::seal(&file, SealFlag::F_SEAL_WRITE).expect_err("the seals are sealed");
        MmapOptions::new().map_raw_read_only(&file).expect("it can be read");
    }
    region.discard(0, 4096).expect_err("sealed");
    assert_eq!(region.words()[0].load(Ordering::Relaxed), 7);
}

#[test]
fn discarded_pages_are_zero_and_their_memory_is_free() {
    let region = region(64 << 10);
    region.words().iter().for_each(|word| word.store(7, Ordering::Relaxed));
    assert_eq!(taken(&region), 64 << 10);
    region.discard(4096 - 8, 16 << 10).expect("given back");
    assert_eq!(taken(&region), (64 - 12) << 10, "whole pages only");
    let words = region.words();
    let loaded = |at: usize| words[at].load(Ordering::Relaxed);
    let (first, end) = (4096 / 8 - 1, (4096 - 8 + (16 << 10)) / 8);
    assert!((first..end).all(|at| loaded(at) == 0));
    assert!(loaded(first - 1) == 7 && loaded(end) == 7);
}

#[test]
fn large_pages_keep_the_bytes() {
    const LARGE: usize = 2 << 20;
    let region = region(5 * LARGE as u64);
    // The last pages are untouched.
    let touched = region.words().len() / 2;
    for (at, word) in region.words().iter().enumerate().take(touched) {
        word.store(at as u64, Ordering::Relaxed);
    }
    // Old kernels have none, and a busy machine may have no such memory left.
    let moved = region.use_large_pages(100, 4 * LARGE);
    assert!(region.use_large_pages(100, LARGE).is_ok(), "no whole page of 2 MiB");
    let maps = std::fs::read_to_string("/proc/self/smaps").expect("/proc");
    let start = format!("{:x}-", region.address().get());
    let own = maps.lines().skip_while(|line| !line.starts_with(&start));
    let kib = own.skip(1).find_map(|line| line.strip_prefix("ShmemPmdMapped:"));
    let kib = kib.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<usize>().ok());
    match moved {
        Ok(()) => assert!(kib >= Some(3 * LARGE / 1024), "{kib:?} KiB are large"),
        Err(error) => assert!(error.raw_os_error().is_some(), "{error}"),
    }
    let is_kept = |(at, word): (usize, &AtomicU64)| {
        word.load(Ordering::Relaxed) == if at < touched { at as u64 } else { 0 }
    };
    assert!(region.words().iter().enumerate().all(is_kept));
}
