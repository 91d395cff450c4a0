//! Objects with their addresses, as debuggers and profilers read them.

use object::read::elf::ElfFile64;
use object::{Object, ObjectSection, ObjectSymbol, SectionFlags};

use crate::PlacedObject;
use crate::random::Random;
use crate::tests::*;

const SOURCE: &str = "int shared_room[5]; int outside(int); static int own = 3;\n\
                      __attribute__((noinline)) static int inner(int x) { return outside(x) + own; }\n\
                      int outer(int x) {\n  return inner(x)\n    * shared_room[x];\n}";
const FLAGS: &str = "-O1 -g -fPIC -fcommon -ffile-prefix-map=/=/";

fn placed(object: &ObjectFile) -> Result<(Vec<PlacedObject>, Image)> {
    let mut graph = graph(&[object])?;
    for need in graph.undefined() {
        graph.define_external(&need.name, ExecutorAddr::new(NEAR));
    }
    let layout = graph.layout()?;
    if layout.bytes().iter().sum::<u64>() > 1 << 24 {
        return Err(Error::link("too large"));
    }
    let bases = BASES.map(ExecutorAddr::new);
    let objects = layout.objects(bases);
    Ok((objects, layout.fixup(bases, THREAD_OFFSET)?))
}

#[test]
fn a_copy_for_debuggers_differs_in_places_alone() {
    let bytes = compile_bytes("c.o", FLAGS, SOURCE);
    let (objects, image) = placed(&ObjectFile::parse("c.o", bytes.clone()).unwrap()).unwrap();
    assert!(objects[0].is_there() && objects[0].object().name() == "c.o");
    let copy = objects[0].debug_object();
    let [before, after] =
        [&bytes, &copy].map(|file| ElfFile64::<object::Endianness>::parse(&**file).unwrap());
    for (section, copied) in before.sections().zip(after.sections()) {
        let name = section.name().unwrap();
        assert_eq!(name, copied.name().unwrap());
        if name != ".symtab" {
            assert_eq!(section.data().unwrap(), copied.data().unwrap(), "{name}");
        }
        let flags = |one: SectionFlags| match one {
            SectionFlags::Elf { sh_flags, .. } => sh_flags,
            _ => panic!("an ELF section"),
        };
        let is_alloc = flags(copied.flags()).contains(object::elf::SHF_ALLOC);
        assert_eq!(is_alloc, copied.address() != 0, "{name}");
        assert!(!is_alloc || stripe_of(&image, copied.address()).is_some(), "{name}");
    }
    let symbol = |name: &str| after.symbols().find(|one| one.name() == Ok(name)).unwrap();
    assert_eq!(symbol("shared_room").address(), address_of(&image, "shared_room"));
    assert!(!symbol("shared_room").is_common());
    let text = after.section_by_name(".text").unwrap().address();
    assert_eq!(text + symbol("outer").address(), address_of(&image, "outer"));
}

#[test]
fn lines_belong_to_code_that_is_in_the_image() {
    let (objects, image) = placed(&compile("c.o", FLAGS, SOURCE)).unwrap();
    let mut lines = Vec::new();
    objects[0].lines(|line| lines.push((line.address.get(), line.line, line.file.to_owned())));
    assert!(lines.iter().all(|(_, _, file)| file.starts_with('/') && file.ends_with("/in")));
    let outer = address_of(&image, "outer");
    let of_outer: Vec<u32> =
        lines.iter().filter(|line| line.0 >= outer).map(|line| line.1).collect();
    assert_eq!(of_outer.first(), Some(&3));
    assert!([4, 5, 6].iter().all(|line| of_outer.contains(line)), "{of_outer:?}");
    assert!(lines.iter().any(|line| line.1 == 2 && line.0 < outer));
    // An object without debug information has no lines.
    let (objects, _) = placed(&compile("c.o", "-O1 -fPIC", SOURCE)).unwrap();
    objects[0].lines(|line| panic!("{line:?}"));
}

#[test]
fn damaged_debug_information_is_passed_over() {
    let mut random = Random::new(22);
    let (mut linked, mut fewer, mut unknown) = (0, 0, 0);
    for version in ["-gdwarf-5", "-gdwarf-4"] {
        let bytes = compile_bytes("c.o", &format!("{FLAGS} {version}"), SOURCE);
        let count = |bytes: &[u8]| {
            let object = ObjectFile::parse("damaged.o", bytes.to_vec())?;
            let (objects, _) = placed(&object)?;
            assert_eq!(objects[0].debug_object().len(), bytes.len());
            let mut lines = 0;
            objects[0].lines(|_| lines += 1);
            let prototype = objects[0].prototype("outer").map(|one| one.to_string());
            Ok::<_, Error>((lines, prototype))
        };
        let (all, prototype) = count(&bytes).unwrap();
        assert_eq!(prototype.as_deref(), Some("int32_t outer(int32_t)"));
        for _ in 0..2000 {
            let mut damaged = bytes.clone();
            for _ in 0..=random.below(3) {
                let at = random.index(damaged.len());
                damaged[at] = random.word().to_le_bytes()[0];
            }
            let Ok((lines, other)) = count(&damaged) else { continue };
            linked += 1;
            fewer += usize::from(lines < all);
            unknown += usize::from(other != prototype);
        }
    }
    assert!(linked > 1000 && fewer > 20, "{linked} were linked, {fewer} have fewer lines");
    assert!(unknown > 20, "{unknown} of {linked} have another prototype or none");
}
