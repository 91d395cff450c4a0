//! Random programs: a few objects that refer to each other in every way that the linker knows.
//!
//! First every shared name gets a fate: which objects define it, and how. Then each object gets sections, and
//! the sections get fields that refer to names and places. Fates and fields are chosen so that nearly all
//! programs can be linked.
//!
//! Invariant: everything follows from the random numbers.

use super::elf_file::{
    ALLOC, EXECUTE, ElfFile, FINI_ARRAY, Group, Home, IN_GROUP, INIT_ARRAY, LINK_ORDER, NOBITS,
    PREINIT_ARRAY, PROGBITS, Relocation, Section, Symbol, THREAD, WRITE,
};
use super::fields::{Reach, TLS_GET_ADDR, Target, add_fields, forms};
use super::names::{Fate, Name, names};
use super::unwind;
use farcall_base::random::Random;
use farcall_link::{ExecutorAddr, External, Processor};

/// Objects, and everything that linking them needs.
#[derive(Debug)]
pub struct Program {
    /// The object files.
    pub objects: Vec<Vec<u8>>,
    /// Names from outside, and their definitions.
    pub externals: Vec<(String, External)>,
    /// The processor of the objects.
    pub processor: Processor,
    /// The addresses of the stripes.
    pub bases: [u64; 3],
    /// The number of the TLS module of the program's thread-locals, if they are dynamic.
    pub tls_module: Option<u32>,
}

const HIGH_BASES: [u64; 3] = [0x7f00_0000_0000, 0x7f00_1000_0000, 0x7f00_2000_0000];
const LOW_BASES: [u64; 3] = [0x1000_0000, 0x2000_0000, 0x3000_0000];

/// Within the reach of a call, and of a load relative to its instruction.
const NEAR_BASES: [u64; 3] = [0x7f00_0000_0000, 0x7f00_0100_0000, 0x7f00_0200_0000];
const TINY_BASES: [u64; 3] = [0x1000_0000, 0x1004_0000, 0x1008_0000];

/// Names of sections that have `__start_X` and `__stop_X`.
const SETS: [&str; 2] = ["set_one", "set_two"];

const LOCAL: u8 = 0;
const GLOBAL: u8 = 1;
const WEAK: u8 = 2;
const UNIQUE: u8 = 10;

impl Program {
    /// A random program of one to four objects.
    pub fn random(random: &mut Random, processor: Processor) -> Program {
        Self::of_at_most(random, 4, processor)
    }

    /// A random program of one to ten objects.
    pub fn of_many(random: &mut Random, processor: Processor) -> Program {
        Self::of_at_most(random, 10, processor)
    }

    fn of_at_most(random: &mut Random, objects_max: usize, processor: Processor) -> Program {
        let is_low = random.one_in(3);
        // Thread-locals from outside are dynamic; the program's own mostly as well.
        let is_dynamic = random.one_in(3);
        let tls_module = Some(5).filter(|_| is_dynamic && !random.one_in(4));
        let objects = 1 + random.index(objects_max);
        let names = names(random, objects);
        let (bases, near, thread_outside) = match (processor, is_low) {
            (Processor::X86_64, true) => (LOW_BASES, 0x1000_0000, -0x1_0000_i64),
            (Processor::X86_64, false) => (HIGH_BASES, 0x1000_0000, -0x1_0000),
            (_, true) => (TINY_BASES, 0x4_0000, 0x8000),
            (_, false) => (NEAR_BASES, 0x100_0000, 0x8000),
        };
        let mut externals = Vec::new();
        for name in &names {
            let offset = 8 * random.below(0x1000);
            let base = match name.fate {
                Fate::Near | Fate::Replaced => bases[2] + near,
                Fate::Far | Fate::FarFunction => 0x5555_0000_0000,
                Fate::ThreadOutside if is_dynamic => 0,
                Fate::ThreadOutside => thread_outside.cast_unsigned(),
                _ => continue,
            };
            let address = ExecutorAddr::new(base + offset);
            let callable =
                name.fate == Fate::FarFunction || name.fate == Fate::Near && random.one_in(2);
            let thread = name.fate == Fate::ThreadOutside;
            let tls_module = Some(3).filter(|_| thread && is_dynamic);
            externals.push((name.text.clone(), External { address, callable, thread, tls_module }));
        }
        let reaches = (is_low, is_dynamic);
        let objects =
            (0..objects).map(|object| object_file(random, processor, object, &names, reaches));
        let objects = objects.collect();
        Program { objects, externals, processor, bases, tls_module }
    }
}

/// An object file. `reaches` says whether addresses must be low, and whether thread-locals may be dynamic.
fn object_file(
    random: &mut Random,
    processor: Processor,
    number: usize,
    names: &[Name],
    reaches: (bool, bool),
) -> Vec<u8> {
    let (is_low, is_dynamic) = reaches;
    let mut file = ElfFile { processor, is_wide: random.one_in(8), ..ElfFile::default() };
    for _ in 0..1 + random.below(7) {
        file.sections.push(plain_section(random));
    }
    // Only a section that exists has bounds.
    file.sections.push(Section { name: SETS[0].to_owned(), ..data_section(random) });
    for _ in 0..random.below(4) {
        file.sections.push(array_section(random));
    }
    // Thread-locals, with initial values and without.
    let thread_sections = [file.sections.len(), file.sections.len() + 1];
    file.sections.extend(thread_pair(random));
    let groups = add_groups(random, &mut file, number, names);
    if random.one_in(4) {
        add_link_order(random, &mut file);
    }
    // The symbols of the sections come first, at the sections' indices.
    for section in 0..file.sections.len() {
        file.symbols.push(Symbol { kind: 3, ..symbol("", LOCAL, Home::Section(section)) });
    }
    for local in 0..random.below(4) {
        let section = random.index(file.sections.len());
        let value = random.below(1 + size(&file.sections[section]));
        let place = symbol(&format!("local{local}"), LOCAL, Home::Section(section));
        let kind = kind_in(random, &file.sections[section]);
        file.symbols.push(Symbol { value, kind, ..place });
    }
    let mut targets = local_targets(&file, &groups, is_low);
    for name in names {
        let place = match name.fate {
            Fate::Thread { .. } => random.pick(&thread_sections),
            _ => random.index(file.sections.len()),
        };
        let id = file.symbols.len();
        let symbol = shared_symbol(random, number, name, &file, &groups, place);
        if symbol.home == Home::Undefined && random.one_in(3) {
            continue;
        }
        let (reach, is_thread) = (name.reach(is_low), name.is_thread());
        let is_own = name.definers != 0;
        targets.push(Target { symbol: id, reach, is_thread, is_own, ..Target::default() });
        file.symbols.push(symbol);
    }
    file.symbols.push(symbol(TLS_GET_ADDR, GLOBAL, Home::Undefined));
    for (name, members) in &groups {
        let is_signature = |symbol: &Symbol| symbol.name == names[*name].text;
        let signature = file.symbols.iter().position(is_signature).unwrap_or(0);
        file.groups.push(Group { signature, members: members.clone() });
    }
    if processor == Processor::Aarch64 {
        align(&mut file);
    }
    for section in 0..file.sections.len() {
        add_fields(random, &mut file, section, &targets, is_dynamic);
    }
    if random.one_in(2) {
        unwind::add_records(random, &mut file);
    }
    if random.one_in(3) {
        let section = debug_section(random, processor);
        file.sections.push(section);
    }
    file.write()
}

/// Aligns what instructions of AArch64 refer to: they scale their operands. Thread-locals stay within reach of one.
fn align(file: &mut ElfFile) {
    const BYTES: u64 = 16;
    for section in &mut file.sections {
        let most = if section.flags & THREAD != 0 { 64 } else { section.alignment.max(BYTES) };
        section.alignment = section.alignment.clamp(BYTES, most);
        // The next section of its kind begins where it ends.
        if section.flags & EXECUTE != 0 || SETS.contains(&&*section.name) {
            section.content.truncate(section.content.len() & !15);
        }
    }
    for symbol in &mut file.symbols {
        symbol.value = match symbol.home {
            Home::Common => symbol.value.max(BYTES),
            _ => symbol.value & !(BYTES - 1),
        };
    }
}

/// A shared name as one object sees it.
fn shared_symbol(
    random: &mut Random,
    number: usize,
    name: &Name,
    file: &ElfFile,
    groups: &[(usize, Vec<usize>)],
    place: usize,
) -> Symbol {
    let is_plain = |section: &usize| {
        let is_alone = groups.iter().all(|(_, members)| !members.contains(section));
        let section = &file.sections[*section];
        is_alone && section.link.is_none() && (section.flags & THREAD != 0) == name.is_thread()
    };
    let binding = match name.fate {
        Fate::Missing | Fate::MissingThread => WEAK,
        Fate::Weak if random.one_in(4) => UNIQUE,
        Fate::Weak | Fate::Replaced | Fate::Grouped => WEAK,
        Fate::CommonOverWeak if number.is_multiple_of(2) => WEAK,
        Fate::Overridden { object } if object != number => WEAK,
        _ => GLOBAL,
    };
    if !name.is_defined_by(number) {
        let binding =
            if binding == WEAK && name.definers == 0 || random.one_in(8) { WEAK } else { GLOBAL };
        let kind = if name.is_thread() { 6 } else { 0 };
        return Symbol { kind, ..symbol(&name.text, binding, Home::Undefined) };
    }
    let visibility = if random.one_in(2) { name.visibility } else { 0 };
    let home = match name.fate {
        Fate::Absolute { .. } => Home::Absolute,
        Fate::Common => Home::Common,
        Fate::CommonOverWeak if binding == GLOBAL => Home::Common,
        Fate::Grouped => {
            let own = groups
                .iter()
                .find(|(_, members)| file.sections[members[0]].name.ends_with(&name.text));
            Home::Section(own.map_or(0, |(_, members)| members[0]))
        }
        _ => Home::Section(Some(place).filter(is_plain).unwrap_or(0)),
    };
    let (value, kind) = match home {
        Home::Section(section) => {
            let section = &file.sections[section];
            (random.below(1 + size(section)), kind_in(random, section))
        }
        Home::Common => (1 << random.below(8), 1),
        _ => (random.below(100), 0),
    };
    let bytes = random.below(64);
    Symbol { visibility, value, bytes, kind, ..symbol(&name.text, binding, home) }
}

/// The targets of an object's fields in the object itself.
fn local_targets(file: &ElfFile, groups: &[(usize, Vec<usize>)], is_low: bool) -> Vec<Target> {
    let mut targets = Vec::new();
    for (id, symbol) in file.symbols.iter().enumerate() {
        let Home::Section(section) = symbol.home else { continue };
        let group = groups.iter().position(|(_, members)| members.contains(&section));
        let linked = file.sections[section].link;
        let reach = if is_low { Reach::Low } else { Reach::Near };
        let owner = group.and_then(|group| groups[group].1.first().copied()).or(linked);
        let is_thread = file.sections[section].flags & THREAD != 0;
        let (section, is_own) = (Some(section), true);
        targets.push(Target { symbol: id, reach, section, owner, is_thread, is_own });
    }
    targets
}

fn symbol(name: &str, binding: u8, home: Home) -> Symbol {
    let name = name.to_owned();
    Symbol { name, binding, home, kind: 0, visibility: 0, value: 0, bytes: 0 }
}

fn size(section: &Section) -> u64 {
    section.content.len() as u64 + section.zero_bytes
}

fn plain_section(random: &mut Random) -> Section {
    let number = random.below(4);
    let suffix = if random.one_in(2) { format!(".f{number}") } else { String::new() };
    let (family, flags) = match random.below(9) {
        0..=2 => (".text", ALLOC | EXECUTE),
        8 => {
            let (name, flags) = (random.pick(&[".init", ".fini"]).to_owned(), ALLOC | EXECUTE);
            return Section { name, flags, ..data_section(random) };
        }
        3 => (".rodata", ALLOC),
        4 => (".data.rel.ro", ALLOC | WRITE),
        5 => {
            let zero_bytes = random.below(200);
            let (kind, flags) = (NOBITS, ALLOC | WRITE);
            let name = format!(".bss{suffix}");
            return Section {
                name,
                kind,
                flags,
                zero_bytes,
                alignment: alignment(random),
                ..Section::default()
            };
        }
        6 => {
            let name = random.pick(&SETS).to_owned();
            let flags = ALLOC | if random.one_in(2) { WRITE } else { 0 };
            return Section { name, flags, ..data_section(random) };
        }
        _ => (".data", ALLOC | WRITE),
    };
    Section { name: format!("{family}{suffix}"), flags, ..data_section(random) }
}

fn data_section(random: &mut Random) -> Section {
    let len = random.index(160);
    Section {
        kind: PROGBITS,
        flags: ALLOC | WRITE,
        alignment: alignment(random),
        content: random.bytes(len),
        ..Section::default()
    }
}

/// The two sections of thread-locals.
fn thread_pair(random: &mut Random) -> [Section; 2] {
    let flags = ALLOC | WRITE | THREAD;
    let initial = Section { name: ".tdata".to_owned(), flags, ..data_section(random) };
    let (kind, zero_bytes, alignment) = (NOBITS, random.below(100), alignment(random));
    let name = ".tbss".to_owned();
    [initial, Section { name, kind, flags, zero_bytes, alignment, ..Section::default() }]
}

/// The type of a symbol in a section. One in eight symbols in code is an ifunc.
fn kind_in(random: &mut Random, section: &Section) -> u8 {
    match section.flags {
        flags if flags & THREAD != 0 => 6,
        flags if flags & EXECUTE != 0 && random.one_in(8) => 10,
        _ => random.pick(&[0, 1, 2]),
    }
}

fn alignment(random: &mut Random) -> u64 {
    if random.one_in(40) { 4096 } else { 1 << random.below(7) }
}

fn array_section(random: &mut Random) -> Section {
    let (family, kind) = random.pick(&[
        (".init_array", INIT_ARRAY),
        (".fini_array", FINI_ARRAY),
        (".preinit_array", PREINIT_ARRAY),
        (".init_array", PROGBITS),
        (".ctors", PROGBITS),
        (".dtors", PROGBITS),
    ]);
    let has_priority = kind != PREINIT_ARRAY && random.one_in(2);
    let priority =
        if has_priority { format!(".{:05}", random.below(65536)) } else { String::new() };
    let words = random.index(5);
    let content = random.bytes(8 * words);
    let (name, flags, alignment) = (format!("{family}{priority}"), ALLOC | WRITE, 8);
    Section { name, kind, flags, alignment, content, ..Section::default() }
}

/// A section that is not loaded, and may claim to be compressed.
fn debug_section(random: &mut Random, processor: Processor) -> Section {
    let flags = random.pick(&[0, 0x800]);
    let kind = forms(processor).pointer.kind;
    let field = Relocation { offset: 0, kind, symbol: 0, addend: 1 };
    let content = random.bytes(24);
    let (name, kind, relocations) = (".debug_x".to_owned(), PROGBITS, vec![field]);
    Section { name, kind, flags, alignment: 1, content, relocations, ..Section::default() }
}

/// Adds a group for each name that this object defines in one.
fn add_groups(
    random: &mut Random,
    file: &mut ElfFile,
    number: usize,
    names: &[Name],
) -> Vec<(usize, Vec<usize>)> {
    let mut groups = Vec::new();
    for (index, name) in names.iter().enumerate() {
        if name.fate != Fate::Grouped || !name.is_defined_by(number) {
            continue;
        }
        let first = file.sections.len();
        let code = Section { name: format!(".text.{}", name.text), ..data_section(random) };
        file.sections.push(Section { flags: ALLOC | EXECUTE | IN_GROUP, ..code });
        if random.one_in(2) {
            let data = Section { name: format!(".data.{}", name.text), ..data_section(random) };
            file.sections.push(Section { flags: ALLOC | WRITE | IN_GROUP, ..data });
        }
        groups.push((index, (first..file.sections.len()).collect()));
    }
    groups
}

/// Adds a section that describes another and is dropped with it.
fn add_link_order(random: &mut Random, file: &mut ElfFile) {
    let is_code = |section: &usize| file.sections[*section].flags & EXECUTE != 0;
    let code: Vec<usize> = (0..file.sections.len()).filter(is_code).collect();
    if code.is_empty() {
        return;
    }
    let link = Some(random.pick(&code));
    let section = Section { name: "__patchable".to_owned(), link, ..data_section(random) };
    file.sections.push(Section { flags: ALLOC | WRITE | LINK_ORDER, ..section });
}
