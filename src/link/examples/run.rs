//! Links files into this process and runs their `main`: `run FILE... -- ARGUMENT...`. The C library is this program's own.

#![allow(unsafe_code, reason = "it runs code that it has linked")]

use std::error::Error;
use std::ffi::{CString, c_char, c_int};

use farcall_link::{Archive, ExecutorAddr, External, Input, ObjectFile, Options, Undefined, run};

mod memory;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (mut objects, mut archives) = (Vec::new(), Vec::new());
    for name in arguments.by_ref().take_while(|name| name != "--") {
        let bytes = std::fs::read(&name)?;
        match name.ends_with(".a") {
            true => archives.push(Archive::parse(name, bytes)?),
            false => objects.push(ObjectFile::parse(name, bytes)?),
        }
    }
    let inputs = objects.iter().map(Input::Object).chain(archives.iter().map(Input::Archive));

    let mut memory = None;
    let image = run(inputs, &Options::default().want("main"), in_libraries, |layout| {
        let (new, place) = memory::Memory::new(layout)?;
        memory = Some(new);
        Ok(place)
    })?;
    eprintln!("linked {} objects, {} relocations", image.stats.objects, image.stats.relocations);
    let main = image.symbols.address_of("main").ok_or("no file defines main")?;

    let words = std::iter::once("main".to_owned()).chain(arguments);
    let words: Vec<CString> = words.map(CString::new).collect::<Result<_, _>>()?;
    let mut pointers: Vec<*const c_char> = words.iter().map(|word| word.as_ptr()).collect();
    pointers.push(std::ptr::null());
    let memory = memory.ok_or("no place was asked for")?;
    // SAFETY: the image was linked for this memory, and its user trusts the files.
    unsafe { memory.load(&image) }?;
    // SAFETY: as above; C defines the type of `main`.
    let main: extern "C" fn(c_int, *const *const c_char) -> c_int =
        unsafe { memory::function(main) };
    std::process::exit(main(c_int::try_from(words.len())?, pointers.as_ptr()));
}

/// The address of a name in the libraries of this process.
fn in_libraries(missing: &Undefined) -> farcall_link::Result<Option<External>> {
    let Ok(name) = CString::new(&*missing.name) else { return Ok(None) };
    // SAFETY: the name is a C string.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) } as u64;
    let found = External { callable: !missing.narrow, ..ExecutorAddr::new(address).into() };
    Ok((address != 0).then_some(found))
}
