//! The number of threads that share a link does not change the image. `tests/fuzz` tries ten thousand programs.

use crate::fuzz::{Processor, Program};
use crate::random::Random;

#[test]
fn one_two_and_eight_threads_make_equal_images() {
    let (mut links, mut members) = (0, 0);
    for seed in 0..200 {
        let linked = Program::of_many(&mut Random::new(seed), Processor::X86_64).by_threads();
        if let Some(added) = linked.unwrap_or_else(|what| panic!("seed {seed}: {what}")) {
            (links, members) = (links + 1, members + added);
        }
    }
    assert!(links > 60 && members > 60, "{links} links with {members} members");
}
