//! Symbols.
//!
//! Invariant: a symbol that is accepted lies in its section, and has a name if other objects can see it.

use object::LittleEndian;
use object::elf;
use object::read::SymbolIndex;
use object::read::elf::Sym;

use super::{LE, Reader};
use crate::error::Result;
use crate::limits::ALIGNMENT_MAX;
use crate::read::names;
use crate::read::parsed::{Name, Place, Role, Symbol, SymbolKind};

type ElfSymbol = elf::Sym64<LittleEndian>;

/// The section index of common symbols of the large code model.
const SHN_X86_64_LCOMMON: elf::SymbolSection = elf::SymbolSection(0xff02);

impl Reader<'_> {
    pub(super) fn read_symbols(&mut self) -> Result<()> {
        self.symbols.reserve(self.symbol_table.len());
        for (index, symbol) in self.symbol_table.enumerate() {
            let symbol =
                if index.0 == 0 { Symbol::null() } else { self.read_symbol(index, symbol)? };
            self.symbols.push(symbol);
        }
        Ok(())
    }

    fn read_symbol(&mut self, index: SymbolIndex, symbol: &ElfSymbol) -> Result<Symbol> {
        let bytes = self.symbol_table.symbol_name(LE, symbol);
        let bytes = bytes.map_err(|error| self.error(format!("symbol {}: {error}", index.0)))?;
        let name = self.name_of(bytes)?.unwrap_or_default();
        let at = |problem: String| {
            self.error(format_args!("symbol {} `{}`: {problem}", index.0, self.text(name)))
        };

        let kind = match symbol.st_type() {
            elf::STT_NOTYPE | elf::STT_OBJECT | elf::STT_COMMON => SymbolKind::Plain,
            elf::STT_FUNC => SymbolKind::Function,
            elf::STT_SECTION | elf::STT_FILE => SymbolKind::Anonymous,
            elf::STT_TLS => SymbolKind::Thread,
            elf::STT_GNU_IFUNC => SymbolKind::Ifunc,
            kind => return Err(at(format!("unknown symbol type {}", kind.0))),
        };
        let (local, weak) = match symbol.st_bind() {
            elf::STB_LOCAL => (true, false),
            elf::STB_GLOBAL => (false, false),
            elf::STB_WEAK | elf::STB_GNU_UNIQUE => (false, true),
            binding => return Err(at(format!("unknown symbol binding {}", binding.0))),
        };
        let value = symbol.st_value(LE);
        let place = self.place_of(index, symbol, name)?;
        let mut is_thread = false;
        match place {
            Place::Section(section) => {
                let size = self.sections[section as usize].bytes;
                if value > size {
                    return Err(at(format!(
                        "offset {value} is past the {size} bytes of its section"
                    )));
                }
                let role = &self.sections[section as usize].role;
                is_thread = matches!(role, Role::Thread);
                if let Role::Fragment(_) = role
                    && matches!(self.text(name), "_init" | "_fini")
                {
                    return Err(at(
                        "farcall itself starts and ends this function; leave crti.o and crtn.o out"
                            .to_owned(),
                    ));
                }
                if kind == SymbolKind::Thread && !is_thread {
                    return Err(at(
                        "thread-local, but not in a section of thread-locals".to_owned()
                    ));
                }
            }
            Place::Common if kind == SymbolKind::Thread => {
                return Err(at("common, but thread-local; recompile with -fno-common".to_owned()));
            }
            Place::Common if !value.is_power_of_two() || value > ALIGNMENT_MAX => {
                return Err(at(format!(
                    "alignment {value}; at most {ALIGNMENT_MAX} and a power of two is possible; for \
                 more, take memory from aligned_alloc when the program runs"
                )));
            }
            Place::Common if local => return Err(at("common, but local".to_owned())),
            _ => {}
        }
        let is_global = !local;
        if is_global && name.is_empty() {
            let shown = shown(bytes);
            return Err(at(format!(
                "global, and its name \"{shown}\" is empty or no printable UTF-8; give it another name, as objcopy \
                 --redefine-sym does"
            )));
        }
        let is_here = matches!(place, Place::Section(_) | Place::Absolute);
        let name = if is_global { self.without_default(index, name, is_here)? } else { name };
        Ok(Symbol {
            name,
            hash: if is_global { names::hash(name.bytes(self.bytes)) } else { 0 },
            is_global,
            weak,
            hidden: matches!(symbol.st_visibility(), elf::STV_HIDDEN | elf::STV_INTERNAL),
            is_thread,
            kind,
            place,
            value,
            bytes: symbol.st_size(LE),
        })
    }

    /// The name that a symbol has in a link. `api@@V2` has the name `api`; the version is noted if the object has a place for the symbol.
    fn without_default(&mut self, index: SymbolIndex, name: Name, is_here: bool) -> Result<Name> {
        let Some((stem, version, true)) = names::version_of(name.bytes(self.bytes)) else {
            return Ok(name);
        };
        let [stem, version] = [self.length(stem)?, self.length(version)?];
        if is_here {
            let index = u32::try_from(index.0).map_err(|_| self.error("more than 2^32 symbols"))?;
            self.default_versions.push((index, Name { start: name.end - version, ..name }));
        }
        Ok(Name { end: name.start + stem, ..name })
    }

    fn place_of(&self, index: SymbolIndex, symbol: &ElfSymbol, name: Name) -> Result<Place> {
        let what = || format!("symbol {} `{}`", index.0, self.text(name));
        let section = match symbol.st_shndx(LE) {
            elf::SHN_UNDEF => return Ok(Place::Undefined),
            elf::SHN_ABS => return Ok(Place::Absolute),
            elf::SHN_COMMON | SHN_X86_64_LCOMMON => return Ok(Place::Common),
            elf::SHN_XINDEX => {
                self.symbol_table.shndx(LE, index).filter(|section| *section != 0).ok_or_else(
                    || self.error(what() + ": its extended section index (SHN_XINDEX) is missing"),
                )?
            }
            reserved if reserved.is_reserved() => {
                return Err(self.error(format_args!(
                    "{}: unknown reserved section index {:#x}",
                    what(),
                    reserved.0
                )));
            }
            section => u32::from(section.0),
        };
        Ok(match self.loaded_index(section, what)? {
            Some(section) => Place::Section(section),
            None => Place::NotLoaded,
        })
    }
}

/// The start of a name in a message: bytes that are no printable ASCII as `\xE9`.
fn shown(name: &[u8]) -> String {
    const SHOWN_BYTES_MAX: usize = 64;
    name[..name.len().min(SHOWN_BYTES_MAX)].escape_ascii().to_string()
}

impl Symbol {
    /// The symbol at index 0: address 0.
    fn null() -> Symbol {
        Symbol {
            name: Name::default(),
            hash: 0,
            is_global: false,
            weak: false,
            hidden: true,
            is_thread: false,
            kind: SymbolKind::Anonymous,
            place: Place::Absolute,
            value: 0,
            bytes: 0,
        }
    }
}
