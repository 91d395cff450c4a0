//! Pictures are decoded in a strictly confined process: `farcall bind png.h -l png --hints png.toml --rust png.rs`.

#[rustfmt::skip]
#[path = "bindings/png.rs"]
mod png;

use farcall::ExecutorAddr;
use farcall::bind::{Handle, Options, Untrusted};
use png::{PNG_FORMAT_RGBA, PNG_IMAGE_VERSION, Png, png_image};

/// The most pixels in a row, and rows.
const SIDE_MAX: u32 = 1 << 13;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = std::fs::read(std::env::args().nth(1).ok_or("usage: png FILE")?)?;
    let png = Png::start(Options::new("png").strict().timeout_ms(10_000))?;
    let (width, height, pixels) = decode(&png, &file)?;
    println!("{width} x {height}, {} bytes", pixels.len());
    Ok(())
}

/// The width, the height and four bytes for each pixel.
fn decode(png: &Png, file: &[u8]) -> Result<(u32, u32, Vec<u8>), Box<dyn std::error::Error>> {
    let sandbox = png.sandbox();
    let memory = sandbox.memory_of(file)?;
    let empty = png_image { version: PNG_IMAGE_VERSION.cast_unsigned(), ..png_image::default() };
    let image: Handle<png_image> = sandbox.place(&empty)?;
    if png.png_image_begin_read_from_memory(&image, memory.address(), file.len() as u64)? == 0 {
        return Err("no picture".into());
    }
    let head = sandbox.get(&image)?;
    let side = |side: u32| Untrusted::new(side).at_most(SIDE_MAX);
    let (width, height) = (side(head.width)?, side(head.height)?);
    sandbox.set(&image, &png_image { format: PNG_FORMAT_RGBA, ..head })?;
    let mut pixels = vec![0; width as usize * height as usize * 4];
    let decoded = sandbox.memory(pixels.len())?;
    if png.png_image_finish_read(&image, None, decoded.address(), 0, ExecutorAddr::NULL)? == 0 {
        return Err("a damaged picture".into());
    }
    decoded.read(0, &mut pixels)?;
    Ok((width, height, pixels))
}
