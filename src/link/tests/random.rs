//! Random programs, linked and checked.

use crate::arch::edge::Formula;
use crate::arch::{aarch64, x86_64};
use crate::fuzz::{Attempt, Processor, Program, Random, is_fault};
use crate::verify::Verified;
use object::{Object, ObjectSection, RelocationFlags};
use std::collections::BTreeSet;

#[test]
fn random_programs_are_linked_right() {
    let known = x86_64::KINDS.iter().filter(|kind| kind.formula != Formula::Dynamic);
    let known: Vec<u32> = known.map(|kind| kind.number).collect();
    assert_eq!(link_all(Processor::X86_64), known, "every kind that objects may have");
}

#[test]
fn random_programs_for_aarch64_are_linked_right() {
    let known = aarch64::KINDS.iter().filter(|kind| {
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
