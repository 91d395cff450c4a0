//! `farcall bench`.

use crate::status::Failure;

#[derive(clap::Args)]
pub(crate) struct Options {}

pub(crate) fn bench(_options: &Options) -> Result<i32, Failure> {
    Ok(0)
}
