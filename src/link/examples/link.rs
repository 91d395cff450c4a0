//! Links files into a flat image for an address: `link OUT ADDRESS FILE...`. A loader maps the file there and jumps to `main`.
//!
//! The file has the code, then the constants, then the data, each from a page of its own. So a bootloader, an emulator or a device can
//! use it that knows no ELF.

use std::error::Error;

use farcall_link::{Archive, ExecutorAddr, Input, Layout, ObjectFile, Options, Place, run};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: link OUT ADDRESS FILE...";
    let (out, address) = (arguments.next().ok_or(usage)?, arguments.next().ok_or(usage)?);
    let address = u64::from_str_radix(address.trim_start_matches("0x"), 16)?;
    let (mut objects, mut archives) = (Vec::new(), Vec::new());
    for name in arguments {
        let bytes = std::fs::read(&name)?;
        match name.ends_with(".a") {
            true => archives.push(Archive::parse(name, bytes)?),
            false => objects.push(ObjectFile::parse(name, bytes)?),
        }
    }
    let inputs = objects.iter().map(Input::Object).chain(archives.iter().map(Input::Archive));

    // There is no library below: each name has to be in the files.
    let image = run(
        inputs,
        &Options::default().want("main"),
        |_| Ok(None),
        |layout| place(layout, address),
    )?;

    let mut file = Vec::new();
    for (stripe, bytes) in image.stripes.iter().zip(image.bytes) {
        file.extend_from_slice(stripe);
        let zeroes = usize::try_from(bytes)? - stripe.len();
        file.resize((file.len() + zeroes).next_multiple_of(PAGE_BYTES), 0);
    }
    std::fs::write(&out, &file)?;
    let main = image.symbols.address_of("main").ok_or("no file defines main")?;
    println!("{out}: {} bytes for {address:#x}, main at {main}", file.len());
    Ok(())
}

const PAGE_BYTES: usize = 4096;

/// The stripes behind each other, from `address`.
fn place(layout: &Layout, address: u64) -> farcall_link::Result<Place> {
    let [code, constants, _] =
        layout.bytes().map(|bytes| bytes.next_multiple_of(PAGE_BYTES as u64));
    let bases = [address, address + code, address + code + constants].map(ExecutorAddr::new);
    Ok(Place { bases, thread_offset: 0 })
}
