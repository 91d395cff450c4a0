//! The definition of every name, found a second time.
//!
//! Invariant: depends on the files, their order, and the definitions from outside, and on nothing else from the linker.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::link_map::{LinkMap, MappedInput};
use super::raw::{GROUP, Home, LINK_ORDER, Raw, Symbol, u32_at};
use super::{Fault, say};
use crate::output::image::Image;

/// An object, and the addresses of its sections.
pub(super) struct Object<'a> {
    pub(super) name: &'a str,
    pub(super) raw: Raw<'a>,
    /// The address of each section, by its ELF index.
    pub(super) at: Vec<Option<u64>>,
    /// The sections that lie outside of the image.
    pub(super) elsewhere: Vec<bool>,
    /// The sections that are duplicates of an earlier object's.
    pub(super) duplicate: Vec<bool>,
    /// The stubs of its ifuncs, by their symbols.
    pub(super) ifuncs: HashMap<usize, u64>,
    /// Added to the address of a thread-local's initial value, this gives its offset.
    pub(super) thread_shift: u64,
}

/// The names of a link.
pub(super) struct Names<'v, 'a> {
    objects: &'v [Object<'a>],
    pub(super) meanings: HashMap<Cow<'a, [u8]>, Meaning>,
    hidden: HashSet<Cow<'a, [u8]>>,
    /// The names with versions that objects define by a default version.
    versions: Vec<Vec<u8>>,
    /// The symbols that are the definitions of those: the object, and the symbol.
    by_version: HashSet<(usize, usize)>,
    global_offset_table: u64,
    rooms: HashMap<&'a [u8], u64>,
    /// The sections by which `__start_X` and `__stop_X` are defined: start and end.
    sets: HashMap<&'a [u8], (u64, u64)>,
    bounds: Bounds,
}

/// Where the parts of the image start and end.
struct Bounds {
    code: (u64, u64),
    data: (u64, u64),
    zero_fill: u64,
    /// The arrays of the functions that run before all initializers, of the initializers, and of the finalizers.
    arrays: [(u64, u64); 3],
}

/// The definition of a name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    None,
    Outside(u64),
    Weak { object: usize, symbol: usize },
    Common { bytes: u64, alignment: u64 },
    Strong { object: usize, symbol: usize },
}

impl<'a> Object<'a> {
    pub(super) fn read(
        input: &MappedInput<'a>,
        threads: Option<(u64, u64)>,
        signatures: &mut HashSet<&'a [u8]>,
    ) -> Result<Object<'a>, Fault> {
        let raw = Raw::read(input.object.bytes())?;
        let mut addresses = input.sections.iter();
        let (mut at, mut elsewhere) = (Vec::with_capacity(raw.sections.len()), Vec::new());
        let mut others = input.elsewhere.iter();
        for section in &raw.sections {
            at.push(match section.is_loaded() {
                true => *addresses.next().ok_or("more sections are loaded than were mapped")?,
                false => None,
            });
            elsewhere.push(section.is_loaded() && *others.next().unwrap_or(&false));
        }
        if addresses.next().is_some() {
            return Err("fewer sections are loaded than were mapped".to_owned());
        }
        let duplicate = duplicates(&raw, signatures).ok_or("a section group cannot be read")?;
        let thread_shift = threads.map_or(0, |(at, offset)| offset.wrapping_sub(at));
        let (name, ifuncs) = (input.object.name(), input.ifuncs.clone());
        Ok(Object { name, raw, at, elsewhere, duplicate, ifuncs, thread_shift })
    }

    /// True when the object defines the symbol, and not in a duplicate.
    fn defines(&self, symbol: &Symbol<'_>) -> bool {
        match symbol.home {
            Home::Undefined => false,
            Home::Absolute | Home::Common => true,
            Home::Section(index) => self.raw.sections[index].is_loaded() && !self.duplicate[index],
        }
    }
}

impl<'v, 'a> Names<'v, 'a> {
    pub(super) fn new(
        map: &LinkMap<'a>,
        objects: &'v [Object<'a>],
        image: &Image,
    ) -> Result<Self, Fault> {
        let mut names = Names {
            objects,
            meanings: HashMap::new(),
            hidden: HashSet::new(),
            versions: Vec::new(),
            by_version: HashSet::new(),
            global_offset_table: map.got.start,
            rooms: map.rooms.iter().map(|(name, at)| (name.as_bytes(), *at)).collect(),
            sets: HashMap::new(),
            bounds: Bounds::new(map.bases, objects, image),
        };
        for (number, object) in objects.iter().enumerate() {
            for index in 1..object.raw.symbols.len() {
                names.add(number, object, index)?;
            }
            names.add_sets(object);
        }
        for (name, external) in &map.externals {
            let name_bytes = Cow::Borrowed(name.as_bytes());
            let old = names.meanings.insert(name_bytes, Meaning::Outside(external.meant));
            if let Some(Meaning::Strong { object, .. }) = old {
                let object = objects[object].name;
                return Err(format!("`{name}` came from outside although {object} defines it"));
            }
        }
        let places = names.versions.iter().filter_map(|name| names.meaning(name).place());
        names.by_version = places.collect();
        Ok(names)
    }

    fn add(&mut self, number: usize, object: &Object<'a>, index: usize) -> Result<(), Fault> {
        let symbol = &object.raw.symbols[index];
        if symbol.is_local() {
            return Ok(());
        }
        self.add_name(Cow::Borrowed(symbol.name), number, object, index)?;
        let Some(version) = symbol.version.filter(|_| object.defines(symbol)) else {
            return Ok(());
        };
        // Both names mean the same symbol.
        let of = match self.meaning(symbol.name) {
            Meaning::Strong { object: other, symbol: first }
            | Meaning::Weak { object: other, symbol: first }
                if other == number && is_same_place(&object.raw.symbols[first], symbol) =>
            {
                first
            }
            _ => index,
        };
        let name = [symbol.name, version].join(&b'@');
        self.add_name(Cow::Owned(name.clone()), number, object, of)?;
        self.versions.push(name);
        Ok(())
    }

    fn add_name(
        &mut self,
        name: Cow<'a, [u8]>,
        number: usize,
        object: &Object<'a>,
        index: usize,
    ) -> Result<(), Fault> {
        let symbol = &object.raw.symbols[index];
        let defines = object.defines(symbol);
        let was_dropped =
            matches!(symbol.home, Home::Section(section) if object.duplicate[section]);
        // The caller of `main` is not a part of the link.
        if symbol.is_hidden() && !was_dropped && &*name != b"main" {
            self.hidden.insert(name.clone());
        }
        let new = match symbol.home {
            _ if !defines => Meaning::None,
            Home::Common => Meaning::Common { bytes: symbol.bytes, alignment: symbol.value },
            _ if symbol.is_weak() => Meaning::Weak { object: number, symbol: index },
            _ => Meaning::Strong { object: number, symbol: index },
        };
        let old = self.meanings.entry(name).or_insert(Meaning::None);
        *old = match (*old, new) {
            // The same place under a plain name and under a name with a version.
            (Meaning::Strong { object: other, symbol: first }, Meaning::Strong { .. })
                if other == number && is_same_place(&object.raw.symbols[first], symbol) =>
            {
                *old
            }
            (Meaning::Strong { .. }, Meaning::Strong { .. }) => {
                return Err(format!("{} is defined twice", say(symbol.name)));
            }
            (Meaning::Common { bytes, alignment }, Meaning::Common { bytes: b, alignment: a }) => {
                Meaning::Common { bytes: bytes.max(b), alignment: alignment.max(a) }
            }
            (old, new) if new.strength() > old.strength() => new,
            (old, _) => old,
        };
        Ok(())
    }

    fn add_sets(&mut self, object: &Object<'a>) {
        for (section, at) in object.raw.sections.iter().zip(&object.at) {
            let is_plain =
                !section.is_thread() && !section.is_eh_frame() && section.array_kind().is_none();
            let Some(start) = at.filter(|_| is_plain) else { continue };
            let end = start.saturating_add(section.bytes);
            let set = self.sets.entry(section.name).or_insert((start, end));
            *set = (set.0.min(start), set.1.max(end));
        }
    }

    /// The address of a symbol as an object sees it; `None` when it lies in a dropped section.
    pub(super) fn address(&self, object: usize, index: usize) -> Result<Option<u64>, Fault> {
        match self.definition(object, index)? {
            (Some(object), index, _) => Ok(own_address(&self.objects[object], index)),
            (None, _, symbol) => self.provided(symbol).map(Some),
        }
    }

    /// The definition of a symbol: its object (`None` if no object defines it), its index there, and the symbol.
    pub(super) fn definition(
        &self,
        object: usize,
        index: usize,
    ) -> Result<(Option<usize>, usize, &'v Symbol<'a>), Fault> {
        let objects = self.objects;
        let symbol = |object: usize, index| objects[object].raw.symbols.get(index);
        let own = symbol(object, index).ok_or_else(|| format!("there is no symbol {index}"))?;
        if index == 0 || own.is_local() {
            return Ok((Some(object), index, own));
        }
        match self.meaning(own.name) {
            Meaning::Strong { object, symbol } | Meaning::Weak { object, symbol } => {
                Ok((Some(object), symbol, &objects[object].raw.symbols[symbol]))
            }
            _ => Ok((None, index, own)),
        }
    }

    /// The address of a global symbol that no object defines.
    fn provided(&self, symbol: &Symbol<'_>) -> Result<u64, Fault> {
        match self.meaning(symbol.name) {
            Meaning::Outside(address) => return Ok(address),
            Meaning::Common { .. } => {
                let room = self.rooms.get(symbol.name).copied();
                return room.ok_or_else(|| format!("{} has no room", say(symbol.name)));
            }
            _ => {}
        }
        let set = |prefix: &[u8]| self.sets.get(symbol.name.strip_prefix(prefix)?);
        let made = match symbol.name {
            b"_GLOBAL_OFFSET_TABLE_" => Some(self.global_offset_table),
            // Code adds it to the thread pointer.
            b"_TLS_MODULE_BASE_" => Some(0),
            name => self.room(name),
        };
        let made = made.or_else(|| Some(set(b"__start_")?.0));
        let made = made.or_else(|| Some(set(b"__stop_")?.1));
        let made = made.or_else(|| self.bounds.named(symbol.name));
        let made = made.or_else(|| symbol.is_weak().then_some(0));
        made.ok_or_else(|| format!("{} is undefined", say(symbol.name)))
    }

    /// The size of the definition of a symbol.
    pub(super) fn size(&self, object: usize, index: usize) -> Option<u64> {
        let (_, _, symbol) = self.definition(object, index).ok()?;
        match self.meaning(symbol.name) {
            Meaning::Common { bytes, .. } if !symbol.is_local() => Some(bytes),
            _ => Some(symbol.bytes),
        }
    }

    pub(super) fn meaning(&self, name: &[u8]) -> Meaning {
        self.meanings.get(name).copied().unwrap_or(Meaning::None)
    }

    /// True when a symbol that an object defines is the definition of its name, or of its name with a version.
    pub(super) fn is_meant(&self, object: usize, index: usize) -> bool {
        self.is_meant_by_name(object, index) || self.by_version.contains(&(object, index))
    }

    /// True when a symbol that an object defines is the definition of its name.
    pub(super) fn is_meant_by_name(&self, object: usize, index: usize) -> bool {
        let is_it = |name: &[u8]| self.meaning(name).place() == Some((object, index));
        let symbol = self.objects[object].raw.symbols.get(index);
        symbol.is_some_and(|symbol| index == 0 || symbol.is_local() || is_it(symbol.name))
    }

    /// The names that are for others.
    pub(super) fn exports(&self) -> impl Iterator<Item = (&[u8], Meaning)> {
        let exported = |(name, meaning): &(&Cow<'_, [u8]>, &Meaning)| {
            !matches!(meaning, Meaning::None | Meaning::Outside(_)) && !self.hidden.contains(*name)
        };
        self.meanings.iter().filter(exported).map(|(name, meaning)| (&**name, *meaning))
    }

    /// The address of a name that the linker allocated.
    pub(super) fn room(&self, name: &[u8]) -> Option<u64> {
        self.rooms.get(name).copied()
    }
}

impl Bounds {
    fn new(bases: [u64; 3], objects: &[Object<'_>], image: &Image) -> Bounds {
        let [code, constants, data] = bases;
        let sections = objects.iter().flat_map(|object| object.raw.sections.iter().zip(&object.at));
        let (mut first, mut at_start, mut at_end) = (0, 0, 0);
        let mut routines = [0; 2];
        for (section, at) in sections {
            for (is_fini, bytes) in [false, true].into_iter().zip(&mut routines) {
                if at.is_some() && section.is_fragment(is_fini) {
                    *bytes = 8;
                }
            }
            match section.array_kind().filter(|_| at.is_some()) {
                Some(kind) if kind.is_fini => at_end += section.bytes,
                Some(kind) if kind.order == 0 => first += section.bytes,
                Some(_) => at_start += section.bytes,
                None => {}
            }
        }
        let preinit = (constants, constants.wrapping_add(first));
        let init = preinit.1.wrapping_add(routines[0]);
        let init = (init, init.wrapping_add(at_start));
        let fini = init.1.wrapping_add(routines[1]);
        let fini = (fini, fini.wrapping_add(at_end));
        Bounds {
            code: (code, code.wrapping_add(image.bytes[0])),
            data: (data, data.wrapping_add(image.bytes[2])),
            zero_fill: data.wrapping_add(image.stripes[2].len() as u64),
            arrays: [preinit, init, fini],
        }
    }

    /// The bound with this name, as linkers define it.
    fn named(&self, name: &[u8]) -> Option<u64> {
        Some(match name {
            b"__executable_start" => self.code.0,
            b"etext" | b"_etext" | b"__etext" => self.code.1,
            b"data_start" | b"__data_start" => self.data.0,
            b"edata" | b"_edata" | b"__bss_start" | b"__TMC_END__" => self.zero_fill,
            b"end" | b"_end" | b"__end" => self.data.1,
            b"__preinit_array_start" => self.arrays[0].0,
            b"__preinit_array_end" => self.arrays[0].1,
            b"__init_array_start" => self.arrays[1].0,
            b"__init_array_end" => self.arrays[1].1,
            b"__fini_array_start" => self.arrays[2].0,
            b"__fini_array_end" => self.arrays[2].1,
            _ => return None,
        })
    }
}

impl Meaning {
    /// The object that has the definition, and the symbol there.
    fn place(self) -> Option<(usize, usize)> {
        match self {
            Meaning::Weak { object, symbol } | Meaning::Strong { object, symbol } => {
                Some((object, symbol))
            }
            Meaning::None | Meaning::Outside(_) | Meaning::Common { .. } => None,
        }
    }

    fn strength(self) -> u32 {
        match self {
            Meaning::None => 0,
            Meaning::Outside(_) => 1,
            Meaning::Weak { .. } => 2,
            Meaning::Common { .. } => 3,
            Meaning::Strong { .. } => 4,
        }
    }
}

fn is_same_place(one: &Symbol<'_>, other: &Symbol<'_>) -> bool {
    (one.home, one.value) == (other.home, other.value)
}

/// The address of a symbol that its own object defines: for an ifunc the address of its stub.
pub(super) fn own_address(object: &Object<'_>, index: usize) -> Option<u64> {
    let stub = object.ifuncs.get(&index).copied();
    stub.or_else(|| plain_address(object, &object.raw.symbols[index]))
}

/// The address of a symbol that its own object defines, without regard to stubs: for a thread-local its offset.
pub(super) fn plain_address(object: &Object<'_>, symbol: &Symbol<'_>) -> Option<u64> {
    match symbol.home {
        Home::Section(section) => {
            let is_thread = object.raw.sections[section].is_thread();
            let shift = if is_thread { object.thread_shift } else { 0 };
            Some(object.at[section]?.wrapping_add(symbol.value).wrapping_add(shift))
        }
        Home::Absolute => Some(symbol.value),
        // Only the symbol at index 0.
        Home::Undefined | Home::Common => Some(0),
    }
}

/// The sections of an object that belong to a group which an earlier object has, and the sections that describe them. A section
/// `.gnu.linkonce.*` outside of groups is a group of its own.
fn duplicates<'a>(raw: &Raw<'a>, signatures: &mut HashSet<&'a [u8]>) -> Option<Vec<bool>> {
    let mut duplicate = vec![false; raw.sections.len()];
    let mut grouped = HashSet::new();
    for section in &raw.sections {
        const COMDAT: u32 = 1;
        if section.kind != GROUP || u32_at(section.content, 0)? & COMDAT == 0 {
            continue;
        }
        let symbol = raw.symbols.get(section.info as usize)?;
        let signature = match symbol.home {
            Home::Section(index)
                if symbol.is_local()
                    && matches!(symbol.kind, 3 | 4)
                    && raw.sections[index].is_loaded() =>
            {
                raw.sections[index].name
            }
            _ => symbol.name,
        };
        let is_first = signatures.insert(signature);
        for member in section.content.chunks_exact(4).skip(1) {
            let member = u32_at(member, 0)? as usize;
            grouped.insert(member);
            *duplicate.get_mut(member)? |= !is_first;
        }
    }
    for (index, section) in raw.sections.iter().enumerate() {
        let is_once = section.name.starts_with(b".gnu.linkonce.") && section.is_loaded();
        if is_once && !grouped.contains(&index) && !signatures.insert(section.name) {
            duplicate[index] = true;
        }
    }
    for (index, section) in raw.sections.iter().enumerate() {
        let described = section.link as usize;
        let is_described = section.is_loaded() && section.flags & LINK_ORDER != 0 && described != 0;
        if is_described && raw.sections.get(described)?.is_loaded() && duplicate[described] {
            duplicate[index] = true;
        }
    }
    Some(duplicate)
}
