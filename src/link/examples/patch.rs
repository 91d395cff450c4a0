//! Links a function, runs it, and puts another in its place while the caller stays: hot replacement in a few lines.
//!
//! The caller reaches the function through a variable, its *slot*. A new version is linked by itself and its address stored there.

#![allow(unsafe_code, reason = "it runs code that it has linked")]

use farcall_link::{Image, Input, ObjectBuilder, ObjectFile, Options, Result, run};

mod memory;

/// Links an object into memory of this process. Names that it lacks come from `others`.
fn load(object: &ObjectFile, others: &[&Image]) -> Result<Image> {
    let mut memory = None;
    let image = run(
        [Input::Object(object)],
        &Options::default(),
        |missing| {
            Ok(others
                .iter()
                .find_map(|other| other.symbols.address_of(&missing.name))
                .map(Into::into))
        },
        |layout| {
            let (new, place) = memory::Memory::new(layout)?;
            memory = Some(new);
            Ok(place)
        },
    )?;
    if let Some(memory) = memory {
        // SAFETY: the image was linked for this memory, and its code is below.
        unsafe { memory.load(&image) }?;
    }
    Ok(image)
}

fn main() -> Result<()> {
    let mut first = ObjectBuilder::new("first");
    // jmp [rip + slot]
    first.function("call", [0xff, 0x25, 0, 0, 0, 0]).distance(2, "slot", 0);
    first.data("slot", [0; 8]).address(0, "increment", 0);
    // lea rax, [rdi + 1]; ret
    first.function("increment", [0x48, 0x8d, 0x47, 1, 0xc3]);
    let first = load(&first.build()?, &[])?;

    let address =
        |image: &Image, name: &str| image.symbols.address_of(name).expect("it is defined");
    // SAFETY: the function takes and returns a number.
    let call: extern "C" fn(i64) -> i64 = unsafe { memory::function(address(&first, "call")) };
    println!("before: {}", call(41));

    // lea rax, [rdi + 100]; ret
    let mut second = ObjectBuilder::new("second");
    second.function("increment_by_100", [0x48, 0x8d, 0x47, 100, 0xc3]);
    let second = load(&second.build()?, &[&first])?;
    let slot = address(&first, "slot").get() as *mut u64;
    // SAFETY: the slot lies in the first image's data, and no other thread runs its code.
    unsafe { slot.write_volatile(address(&second, "increment_by_100").get()) };
    println!("after: {}", call(41));
    Ok(())
}
