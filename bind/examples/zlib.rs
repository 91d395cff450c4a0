//! zlib in a strictly confined process: `farcall bind zlib.h -l z --hints zlib.toml --rust zlib.rs`.

#[rustfmt::skip]
#[path = "bindings/zlib.rs"]
mod zlib;

use farcall::bind::Options;
use zlib::{Z_OK, Zlib};

fn main() -> farcall::Result<()> {
    let zlib = Zlib::start(Options::new("zlib").strict())?;
    let text = b"to be or not to be ".repeat(100);
    let mut small = vec![0; text.len()];
    let (status, length) = zlib.compress(&mut small, &text)?;
    small.truncate(length.at_most(text.len())?);
    let mut again = vec![0; text.len()];
    assert_eq!((status, zlib.uncompress(&mut again, &small)?.0), (Z_OK, Z_OK));
    assert_eq!(again, text);
    println!("{} bytes as {}", text.len(), small.len());
    Ok(())
}
