//! Pictures are decoded in a strictly confined process: `farcall bind png.h -l png --hints png.toml --rust png.rs`.

#[rustfmt::skip]
#[path = "bindings/png.rs"]
mod png;

use farcall::ExecutorAddr;
use farcall::bind::{Handle, Options};
use png::{PNG_FORMAT_RGBA, PNG_IMAGE_VERSION, Png, png_image};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = std::fs::read(std::env::args().nth(1).ok_or("usage: png FILE")?)?;
    let png = Png::start(Options::new("png").strict().timeout_ms(10_000))?;
    let (width, height, pixels) = decode(&png, &file)?;
    println!("{width} x {height}, {} bytes", pixels.len());
    Ok(())
}

/// The width, the height and four bytes for each pixel.
fn decode(png: &Png, file: &[u8]) -> farcall::Result<(u32, u32, Vec<u8>)> {
    let memory = png.sandbox().memory_of(file)?;
    let image: Handle<png_image> = png
        .sandbox()
        .place(&png_image { version: PNG_IMAGE_VERSION as u32, ..png_image::default() })?;
    png.png_image_begin_read_from_memory(&image, memory.address(), file.len() as u64)?;
    let size = png_image { format: PNG_FORMAT_RGBA as u32, ..png.sandbox().get(&image)? };
    png.sandbox().set(&image, &size)?;
    let mut pixels =
        vec![0; size.width.min(1 << 14) as usize * size.height.min(1 << 14) as usize * 4];
    let decoded = png.sandbox().memory(pixels.len())?;
    png.png_image_finish_read(&image, None, decoded.address(), 0, ExecutorAddr::NULL)?;
    decoded.read(0, &mut pixels)?;
    Ok((size.width, size.height, pixels))
}
