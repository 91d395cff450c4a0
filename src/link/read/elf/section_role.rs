//! The role of a section for the linker, by its name, type and flags.
//!
//! Invariant: decides from the header alone.

use object::elf;
use object::read::elf::SectionHeader;

use super::{HeaderOfSection, LE};
use crate::read::parsed::{Role, Routine};

/// The priority of initialisers without one: behind all that have one.
const PRIORITY_LAST: u32 = 65536;

/// The turn of an array's functions. Of two arrays with one priority, the one of the old kind (`.ctors`, `.dtors`) comes first.
/// GNU ld sorts those by their names. Arrays without priorities share one turn, in the order of the objects.
fn turn(priority: Option<u32>, is_old: bool) -> u64 {
    match priority {
        None => 2 * u64::from(PRIORITY_LAST),
        Some(priority) if is_old => 2 * u64::from((PRIORITY_LAST - 1).saturating_sub(priority)),
        Some(priority) => 2 * u64::from(priority) + 1,
    }
}

/// The type that some compilers give `.eh_frame`.
const SHT_X86_64_UNWIND: elf::SectionType = elf::SectionType(0x7000_0001);

/// True for relocations and groups, which are about half of all sections. Their type shows without their names.
pub(super) fn is_never_loaded(header: &HeaderOfSection) -> bool {
    matches!(header.sh_type(LE), elf::SHT_RELA | elf::SHT_GROUP)
        && !header.sh_flags(LE).contains(elf::SHF_ALLOC)
}

/// True for sections that a program has in memory. Notes about the object are not loaded, nor is `.sframe`, a second unwind
/// table that cannot be concatenated.
pub(super) fn is_loaded(name: &str, header: &HeaderOfSection) -> bool {
    let flags = header.sh_flags(LE);
    flags.contains(elf::SHF_ALLOC)
        && !flags.contains(elf::SHF_EXCLUDE)
        && header.sh_type(LE) != elf::SHT_GNU_SFRAME
        && !matches!(name, ".note.gnu.property" | ".sframe")
}

/// True for sections that only relocations write. All of those are applied before anything runs.
pub(super) fn is_relro(name: &str, header: &HeaderOfSection) -> bool {
    const FAMILIES: [&str; 9] = [
        ".data.rel.ro",
        ".ldata.rel.ro",
        ".bss.rel.ro",
        ".init_array",
        ".fini_array",
        ".preinit_array",
        ".ctors",
        ".dtors",
        ".got",
    ];
    let in_family = |family: &&str| {
        name.strip_prefix(*family).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    is_eh_frame(name, header)
        || matches!(
            header.sh_type(LE),
            elf::SHT_INIT_ARRAY | elf::SHT_FINI_ARRAY | elf::SHT_PREINIT_ARRAY
        )
        || (!name.starts_with(".text") && FAMILIES.iter().any(in_family))
}

fn is_eh_frame(name: &str, header: &HeaderOfSection) -> bool {
    header.sh_type(LE) == SHT_X86_64_UNWIND || name == ".eh_frame"
}

/// The role of a section. The records of an `.eh_frame` are found later.
pub(super) fn role(name: &str, header: &HeaderOfSection) -> Role {
    if header.sh_flags(LE).contains(elf::SHF_TLS) {
        return Role::Thread;
    }
    if is_eh_frame(name, header) {
        return Role::EhFrame(Vec::new());
    }
    let (family, priority) = array_name(name);
    let turn = |is_old| turn(priority, is_old);
    let is_executable = header.sh_flags(LE).contains(elf::SHF_EXECINSTR);
    match (header.sh_type(LE), family) {
        (elf::SHT_PREINIT_ARRAY, _) | (_, ".preinit_array") => Role::PreinitArray,
        (elf::SHT_INIT_ARRAY, _) | (_, ".init_array") => {
            Role::InitArray { turn: turn(false), reversed: false }
        }
        (elf::SHT_FINI_ARRAY, _) | (_, ".fini_array") => {
            Role::FiniArray { turn: turn(false), reversed: false }
        }
        (_, ".ctors") => Role::InitArray { turn: turn(true), reversed: true },
        (_, ".dtors") => Role::FiniArray { turn: turn(true), reversed: true },
        (_, ".init") if is_executable => Role::Fragment(Routine::Init),
        (_, ".fini") if is_executable => Role::Fragment(Routine::Fini),
        _ => Role::Plain,
    }
}

/// Splits ".init_array.00101" into the array's name and the priority. A suffix that is no number is no priority.
fn array_name(name: &str) -> (&str, Option<u32>) {
    const ARRAYS: [&str; 5] = [".preinit_array", ".init_array", ".fini_array", ".ctors", ".dtors"];
    let rest = |array: &str| name.strip_prefix(array)?.strip_prefix('.');
    let found = ARRAYS.iter().find_map(|array| Some((*array, rest(array)?)));
    found.map_or((name, None), |(array, digits)| (array, digits.parse().ok()))
}
