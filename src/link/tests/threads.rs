//! The number of threads that share a link does not change the image.

use std::num::NonZeroUsize;

use crate::addr::ExecutorAddr;
use crate::error::Result;
use crate::link::fuzz::Program;
use crate::link::{Archive, Image, LinkGraph, ObjectFile};
use crate::parallel::Threads;
use crate::random::Random;

/// An archive without a symbol table.
fn archive(members: &[Vec<u8>]) -> Archive {
    let mut bytes = b"!<arch>\n".to_vec();
    for (number, member) in members.iter().enumerate() {
        let name = format!("{number}.o/");
        let header = format!("{name:<16}0           0     0     644     {:<10}`\n", member.len());
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(member);
        bytes.resize(bytes.len().next_multiple_of(2), b'\n');
    }
    Archive::parse("random.a", bytes).unwrap()
}

/// Links the first object with those members of the archive that it needs.
fn link(program: &Program, archive: &Archive, threads: usize) -> Result<(Image, Vec<String>)> {
    let mut graph = LinkGraph::new();
    graph.threads = Threads { most: NonZeroUsize::new(threads), bytes_min: 1 };
    graph.add_object(&ObjectFile::parse("first.o", program.objects[0].clone())?)?;
    graph.add_archive(archive)?;
    for (name, external) in &program.externals {
        graph.define_external(name, *external);
    }
    let undefined: Vec<String> = graph.undefined().iter().map(|one| one.name.to_string()).collect();
    for name in &undefined {
        graph.define_external(name, ExecutorAddr::new(program.bases[2] + 0x2000_0000));
    }
    let functions = [0x1000, 0x2000].map(|at| ExecutorAddr::new(program.bases[2] + at));
    graph.define_thread_functions(functions[0], functions[1])?;
    let mut layout = graph.layout()?;
    if let Some(module) = program.tls_module {
        layout = layout.with_dynamic_threads(module)?;
    }
    Ok((layout.fixup(program.bases.map(ExecutorAddr::new), -0x10000)?, undefined))
}

#[test]
fn one_two_and_eight_threads_make_equal_images() {
    let (mut links, mut errors, mut members) = (0, 0, 0);
    for seed in 0..300 {
        let program = Program::random(&mut Random::new(seed));
        let archive = archive(&program.objects[1..]);
        let [one, two, eight] = [1, 2, 8].map(|threads| link(&program, &archive, threads));
        match (one, two, eight) {
            (Ok(one), Ok(two), Ok(eight)) => {
                assert_eq!((&one.0.stripes, &one.1), (&two.0.stripes, &two.1), "seed {seed}");
                assert_eq!((&one.0.stripes, &one.1), (&eight.0.stripes, &eight.1), "seed {seed}");
                assert_eq!(one.0.stats, eight.0.stats, "seed {seed}");
                members += one.0.stats.objects - 1;
                links += 1;
            }
            (Err(one), Err(two), Err(eight)) => {
                let texts = [&one, &two, &eight].map(ToString::to_string);
                assert!(texts[0] == texts[1] && texts[1] == texts[2], "seed {seed}: {texts:?}");
                errors += 1;
            }
            outcomes => panic!("seed {seed}: {:?}", (outcomes.0.is_ok(), outcomes.1.is_ok())),
        }
    }
    assert!(links > 100 && members > 100, "{links} links with {members} members, {errors} errors");
}
