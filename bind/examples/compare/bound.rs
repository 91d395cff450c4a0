//! By a binding.

use farcall::bind::Options;

use crate::zlib::Zlib;

pub(crate) fn start() -> farcall::Result<Zlib> {
    Zlib::start(Options::new("zlib").strict())
}

pub(crate) fn inflate(
    zlib: &Zlib,
    from: &[u8],
    to: &mut [u8],
) -> Result<usize, Box<dyn std::error::Error>> {
    let most = to.len();
    let (status, length) = zlib.uncompress(to, from)?;
    if status == 0 { Ok(length.at_most(most)?) } else { Err(format!("zlib: {status}").into()) }
}
