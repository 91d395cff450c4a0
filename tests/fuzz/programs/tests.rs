//! Random programs, linked and checked.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::Mutex;

use farcall_base::parallel::Threads;
use farcall_base::random::Random;
use farcall_link::internals::{AARCH64_KINDS, Formula, X86_64_KINDS};
use farcall_link::{ExecutorAddr, LinkGraph, ObjectFile, Processor, Prot, Verified};
use object::{Object, ObjectSection, RelocationFlags};

use super::{Attempt, Program, is_fault};

#[test]
fn random_programs_are_linked_right() {
    let known = X86_64_KINDS.iter().filter(|kind| kind.formula != Formula::Dynamic);
    let known: Vec<u32> = known.map(|kind| kind.number).collect();
    assert_eq!(link_all(Processor::X86_64), known, "every kind that objects may have");
}

#[test]
fn random_programs_for_aarch64_are_linked_right() {
    let known = AARCH64_KINDS.iter().filter(|kind| {
        let is_made = !matches!(kind.formula, Formula::Dynamic | Formula::Unsupported);
        // Few objects align what loads of 16 bytes need. 256 is another number of nothing.
        is_made && !kind.name.contains("LDST128") && kind.number != 256
    });
    let known: Vec<u32> = known.map(|kind| kind.number).collect();
    assert_eq!(link_all(Processor::Aarch64), known, "every kind that objects may have");
}

/// Links programs, and returns the kinds of their relocations.
fn link_all(processor: Processor) -> Vec<u32> {
    let (mut total, mut refused) = (Verified::default(), 0);
    let mut kinds = BTreeSet::new();
    for seed in 0..PROGRAMS {
        let program = Program::random(&mut Random::new(seed), processor);
        program.objects.iter().for_each(|bytes| collect_kinds(bytes, &mut kinds));
        match Attempt::program(&program).and_then(|attempt| attempt.make()?.verify()) {
            Ok(verified) => {
                total.fields += verified.fields;
                total.entangled += verified.entangled;
                total.records += verified.records;
                total.functions += verified.functions;
                total.names += verified.names;
            }
            Err(error) => {
                assert!(!is_fault(&error), "seed {seed}: {error}");
                println!("seed {seed}: {error}");
                refused += 1;
            }
        }
    }
    println!("random programs for {processor}: {PROGRAMS} cases, {refused} refused, {total:?}");
    assert!(refused * 50 < PROGRAMS, "{refused} of {PROGRAMS} programs were refused");
    assert!(total.fields > 10 * PROGRAMS && total.records > PROGRAMS, "{total:?}");
    assert!(total.functions > PROGRAMS && total.names > PROGRAMS, "{total:?}");
    assert_eq!(total.entangled, 0);
    kinds.into_iter().collect()
}

const PROGRAMS: u64 = 4000;

fn collect_kinds(bytes: &[u8], kinds: &mut BTreeSet<u32>) {
    let file = object::File::parse(bytes).unwrap();
    for (_, relocation) in file.sections().flat_map(|section| section.relocations()) {
        if let RelocationFlags::Elf { r_type } = relocation.flags() {
            kinds.insert(r_type.0);
        }
    }
}

#[test]
fn random_programs_are_the_same_in_pieces_and_as_a_whole() {
    let mut linked = 0;
    for seed in 0..300 {
        let program = Program::random(&mut Random::new(seed), Processor::X86_64);
        let objects = (0..).zip(&program.objects);
        let objects = objects.map(|(number, bytes)| {
            ObjectFile::parse(format!("{number}.o"), bytes.to_vec()).unwrap()
        });
        let objects: Vec<ObjectFile> = objects.collect();
        let layout = || {
            let mut graph = LinkGraph::for_processor(Processor::X86_64);
            objects.iter().try_for_each(|object| graph.add_object(object))?;
            graph.set_threads(Threads { most: NonZeroUsize::new(2), bytes_min: 1 });
            for (name, external) in &program.externals {
                graph.define_external(name, *external);
            }
            graph.layout()
        };
        let bases = program.bases.map(ExecutorAddr::new);
        let Ok(Ok(whole)) = layout().map(|layout| layout.fixup(bases, -0x10000)) else { continue };
        let stripes = Mutex::new(whole.stripes.each_ref().map(|stripe| vec![0xaa; stripe.len()]));
        let store = |prot: Prot, offset: u64, piece: &[u8]| {
            let at = usize::try_from(offset).unwrap();
            stripes.lock().unwrap()[prot.index()][at..][..piece.len()].copy_from_slice(piece);
        };
        layout().unwrap().fixup_to(bases, -0x10000, store).unwrap();
        assert!(*stripes.lock().unwrap() == whole.stripes, "seed {seed}");
        linked += 1;
    }
    assert!(linked > 150, "{linked} programs");
}

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
