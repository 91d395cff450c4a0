//! Hosts that close every descriptor, as daemons do, and open files of their own on the numbers (H2).
//!
//! Invariant: the host's files stay open and as they are, whatever the host does next with what it had before.
#![allow(unsafe_code, reason = "closes descriptors by number")]

use std::alloc::Layout;
use std::io::{Read, Seek, Write};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use farcall::controller::region::{Access, Region, RegionHeap};
use farcall::controller::{Client, Process, RestartPolicy, Snapshot};
use farcall::{Connection, PerProt};
use nix::libc;

use super::hosts::in_child;
use crate::alone;
use crate::testkit::launch;

static CONTENT: [u8; 64 << 10] = [0xa5; 64 << 10];
const REGION_BYTES: usize = 1 << 20;
/// More than the host has open.
const NUMBERS: RawFd = 200;
/// How long all that follows may take: no wait may hang.
const TIMEOUT: Duration = Duration::from_secs(40);

/// The files of a host when it becomes a daemon.
struct Had {
    region: Region,
    heap: RegionHeap,
    process: Process,
    buffer: farcall::controller::region::Buffer,
    large: farcall::controller::memory::FinalizedAlloc,
    others: Vec<Box<dyn std::any::Any>>,
}

impl Had {
    fn new() -> Self {
        let region = Region::new(REGION_BYTES as u64, Access::ReadWrite).expect("a region");
        let heap = Region::new(REGION_BYTES as u64, Access::ReadWrite).expect("a region");
        let heap = RegionHeap::new(heap);
        let process = launch::process();
        let attached = process.attach(heap.region()).expect("attached");
        let bytes = PerProt { data: 8 << 20, ..PerProt::default() };
        // Mostly zero fill, whose memory is freed at its end.
        let large = process.allocate_with_zero_fill(bytes, 7 << 20).expect("memory").finalize();
        let supervised = launch::builder().restart(RestartPolicy::new().standby()).start();
        let snapshot = Snapshot::take(launch::executor()).expect("a snapshot");
        let copy = snapshot.spawn().expect("a copy");
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().expect("sockets");
        std::thread::spawn(|| farcall::executor::serve(Connection::socket(theirs)?));
        let client =
            Client::connect(Connection::socket(ours).expect("a socket")).expect("a client");
        let others: Vec<Box<dyn std::any::Any>> = vec![
            Box::new(attached),
            Box::new(supervised.expect("an executor")),
            Box::new(copy),
            Box::new(snapshot),
            Box::new(client),
            Box::new(process.pipeline().expect("a pipeline")),
            Box::new(launch::builder().spawn().expect("a process")),
        ];
        let buffer = process.buffer(4096).expect("a buffer");
        region.words().iter().for_each(|word| word.store(7, std::sync::atomic::Ordering::Relaxed));
        Self { region, heap, process, buffer, large, others }
    }

    /// Goes on with all of it, and drops it.
    fn resume(self) {
        let Self { region, heap, process, buffer, large, others } = self;
        // Calls that need no descriptor work.
        let _ = region.discard(4096 - 8, REGION_BYTES / 2);
        region.populate(0, REGION_BYTES).expect("memory");
        region.write_from(0, &[9_u64]);
        let block = heap.allocate(Layout::from_size_align(64 << 10, 4096).expect("a layout"));
        drop(block);
        let _ = heap.trim();
        // The others are errors within a bound, or work.
        let _ = process.attach(&region);
        let _ = process.process_info();
        let _ = process.pipeline();
        let _ = std::thread::scope(|scope| {
            scope.spawn(|| process.process_info()).join().expect("no panic")
        });
        let _ = process.allocate(PerProt { data: 64 << 20, ..PerProt::default() });
        if let Err(error) = process.deallocate([large]) {
            eprintln!("{error}");
        }
        process.kill();
        drop(buffer);
        for other in others {
            drop(other);
        }
        drop((region, heap, process));
    }
}

/// Closes all descriptors but the standard streams, and opens a file of the host's on each number.
fn become_a_daemon(folder: &Path) -> Vec<(RawFd, u64)> {
    // SAFETY: this is what the test is about: their owners find other files on the numbers.
    unsafe { libc::close_range(3, u32::MAX, 0) };
    let mut files = Vec::new();
    for number in 3..NUMBERS {
        let path = folder.join(number.to_string());
        let options = std::fs::File::options();
        let opened = options.clone().read(true).write(true).create(true).truncate(true).open(path);
        let mut file = opened.expect("a file");
        file.write_all(&CONTENT).expect("written");
        // Another thread may have had the number for a moment, so the file has perhaps the next one.
        let inode = file.metadata().expect("open").ino();
        files.push((file.into_raw_fd(), inode));
    }
    files
}

/// Panics unless each number names the host's file, which is as it was.
fn assert_unchanged(files: Vec<(RawFd, u64)>) {
    for (number, inode) in files {
        // SAFETY: asks about a number.
        let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
        assert!(flags >= 0, "{number} was closed");
        // SAFETY: the number is open, and no value of the test owns it.
        let mut file = std::fs::File::from(unsafe { OwnedFd::from_raw_fd(number) });
        let of_number = file.metadata().expect("open");
        assert_eq!(of_number.ino(), inode, "{number} is another file's");
        assert_eq!(file.stream_position().expect("open"), CONTENT.len() as u64, "{number} moved");
        file.rewind().expect("open");
        let mut content = Vec::new();
        file.read_to_end(&mut content).expect("read");
        assert!(content == CONTENT, "{number} was changed, of {} bytes", file.as_raw_fd());
    }
}

/// H2.
#[test]
fn files_on_the_numbers_of_closed_descriptors_stay_whole() {
    let name = "forks::descriptors::files_on_the_numbers_of_closed_descriptors_stay_whole";
    alone::run(name, || {
        let folder = tempfile::tempdir().expect("a folder");
        let had = Had::new();
        let files = become_a_daemon(folder.path());
        let begun = Instant::now();
        had.resume();
        assert!(begun.elapsed() < TIMEOUT, "{:?}", begun.elapsed());
        assert_unchanged(files);
        launch::process().process_info().expect("the next executor");
    });
}

/// H2: as `daemon()` does, in a child.
#[test]
fn a_daemon_that_closes_all_descriptors_harms_no_parent() {
    let name = "forks::descriptors::a_daemon_that_closes_all_descriptors_harms_no_parent";
    alone::run(name, || {
        let folder = tempfile::tempdir().expect("a folder");
        let mut had = Some(Had::new());
        assert!(in_child(|| {
            let files = become_a_daemon(folder.path());
            had.take().expect("here").resume();
            assert_unchanged(files);
            launch::process().process_info().is_ok()
        }));
        let had = had.take().expect("here");
        had.process.process_info().expect("the parent's");
        assert!(had.region.words()[1].load(std::sync::atomic::Ordering::Relaxed) == 7);
        had.process.deallocate([had.large]).expect("the parent's");
    });
}
