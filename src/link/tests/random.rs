//! Random programs, linked and checked.

use crate::arch::edge::Formula;
use crate::arch::x86_64::KINDS;
use crate::fuzz::{Attempt, Program, Random, is_fault};
use crate::verify::Verified;
use object::{Object, ObjectSection, RelocationFlags};
use std::collections::BTreeSet;

#[test]
fn random_programs_are_linked_right() {
    let (mut total, mut refused) = (Verified::default(), 0);
    let mut kinds = BTreeSet::new();
    for seed in 0..PROGRAMS {
        let program = Program::random(&mut Random::new(seed));
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
    println!("random programs: {PROGRAMS} cases, {refused} refused, {total:?}");
    let known = KINDS.iter().filter(|kind| kind.formula != Formula::Dynamic);
    let known: Vec<u32> = known.map(|kind| kind.number).collect();
    assert_eq!(kinds.into_iter().collect::<Vec<u32>>(), known, "every kind that objects may have");
    assert!(refused * 50 < PROGRAMS, "{refused} of {PROGRAMS} programs were refused");
    assert!(total.fields > 10 * PROGRAMS && total.records > PROGRAMS, "{total:?}");
    assert!(total.functions > PROGRAMS && total.names > PROGRAMS, "{total:?}");
    assert_eq!(total.entangled, 0);
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
