//! Tests of the linker: objects from the system's compiler in, images out. The folders have the names of the room's.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{Image, LinkGraph, ObjectFile, Processor};
use crate::addr::{ExecutorAddr, Prot};
use crate::error::{Error, Result};

mod aarch64;
mod apply;
mod build;
mod graph;
mod output;
mod place;
mod read;
mod run;
mod verification;

/// The addresses of test images: three stripes within 1 GiB, above 4 GiB.
const BASES: [u64; 3] = [0x7f00_0000_0000, 0x7f00_1000_0000, 0x7f00_2000_0000];

/// The offset of a thread's copy of the TLS block from its thread pointer.
const THREAD_OFFSET: i64 = -0x3000;

/// An address outside of every image, out of reach of 32 bits.
const FAR: u64 = 0x5555_0000_1230;

/// An address outside of every image, within reach of 32 bits.
const NEAR: u64 = 0x7f00_3000_4560;

/// Compiles C (or C++ when `flags` say `-xc++`, or assembler with `-xassembler`) into an object.
fn compile(name: &str, flags: &str, source: &str) -> ObjectFile {
    let bytes = compile_bytes(name, flags, source);
    ObjectFile::parse(name, bytes).unwrap()
}

fn compile_bytes(name: &str, flags: &str, source: &str) -> Vec<u8> {
    let scratch = Scratch::new();
    let (input, output) = (scratch.0.join("in"), scratch.0.join("out.o"));
    std::fs::write(&input, source).unwrap();
    let language = if flags.contains("-x") { "" } else { "-xc" };
    let status = Command::new("gcc")
        .args(language.split_whitespace())
        .args(flags.split_whitespace())
        .args(["-w", "-c", "-o"])
        .arg(&output)
        .arg(&input)
        .status()
        .unwrap();
    assert!(status.success(), "gcc {flags} failed for {name}");
    std::fs::read(&output).unwrap()
}

/// A directory that is removed when the value is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("farcall-link-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn graph(objects: &[&ObjectFile]) -> Result<LinkGraph> {
    let mut graph = LinkGraph::for_processor(Processor::X86_64);
    for object in objects {
        graph.add_object(object)?;
    }
    Ok(graph)
}

/// Links at [`BASES`], with the given addresses of names from outside.
fn link(objects: &[&ObjectFile], externals: &[(&str, u64)]) -> Result<Image> {
    finish(graph(objects)?, externals)
}

fn finish(mut graph: LinkGraph, externals: &[(&str, u64)]) -> Result<Image> {
    for (name, address) in externals {
        graph.define_external(name, ExecutorAddr::new(*address));
    }
    graph.layout()?.fixup(BASES.map(ExecutorAddr::new), THREAD_OFFSET)
}

/// The error of a link that must fail.
fn failure<T>(result: Result<T>) -> Error {
    match result {
        Ok(_) => panic!("an error was expected"),
        Err(error) => error,
    }
}

/// The bytes of an image from an address on, to the end of the stored part of the stripe.
fn bytes_at(image: &Image, address: u64) -> &[u8] {
    for (base, stripe) in BASES.iter().zip(&image.stripes) {
        if address >= *base && address < base + stripe.len() as u64 {
            return &stripe[usize::try_from(address - base).unwrap()..];
        }
    }
    panic!("{address:#x} is not stored");
}

fn address_of(image: &Image, name: &str) -> u64 {
    image.symbols.address_of(name).unwrap_or_else(|| panic!("{name} is not defined")).get()
}

fn u64_at(image: &Image, address: u64) -> u64 {
    u64::from_le_bytes(*bytes_at(image, address).first_chunk().unwrap())
}

fn i32_at(image: &Image, address: u64) -> i32 {
    i32::from_le_bytes(*bytes_at(image, address).first_chunk().unwrap())
}

/// The stripe that holds an address, zero fill included.
fn stripe_of(image: &Image, address: u64) -> Option<Prot> {
    let inside = |prot: &Prot| {
        let base = BASES[prot.index()];
        (base..base + image.bytes[prot.index()]).contains(&address)
    };
    Prot::ALL.into_iter().find(inside)
}

/// The offset of a section's header in the file.
fn section_header(bytes: &[u8], name: &str) -> usize {
    let half = |at: usize| usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
    let wide = |at: usize| {
        usize::try_from(u64::from_le_bytes(*bytes[at..].first_chunk().unwrap())).unwrap()
    };
    let header = |index: usize| wide(40) + 64 * index;
    let names = wide(header(half(62)) + 24);
    let is_wanted = |header: &usize| {
        let name_offset = u32::from_le_bytes(*bytes[*header..].first_chunk().unwrap());
        let text = &bytes[names + usize::try_from(name_offset).unwrap()..];
        text.starts_with(name.as_bytes()) && text[name.len()] == 0
    };
    (0..half(60)).map(header).find(is_wanted).unwrap()
}
