//! COMDAT groups: sections of which a program keeps one copy.
//!
//! Invariant: a group has a name, and names only loaded sections of its object.

use std::fmt::Arguments;

use object::elf;
use object::read::elf::SectionHeader;

use super::{LE, Reader};
use crate::error::Result;
use crate::link::read::names;
use crate::link::read::parsed::{Group, Name, Place, SymbolKind};

impl Reader<'_> {
    pub(super) fn read_groups(&mut self) -> Result<()> {
        for (index, header) in self.table.enumerate() {
            if header.sh_type(LE) != elf::SHT_GROUP {
                continue;
            }
            let what = format_args!("section group {}", index.0);
            let range = self.content_range(what, header.sh_offset(LE), header.sh_size(LE))?;
            let group = header.group(LE, self.bytes);
            let group = group.map_err(|error| self.error(format!("{what}: {error}")))?;
            let Some((flags, members)) = group else { continue };
            if !flags.contains(elf::GRP_COMDAT) {
                continue;
            }
            if range.len() % 4 != 0 {
                return Err(
                    self.error(format!("{what}: {} bytes are not 4-byte words", range.len()))
                );
            }
            let signature = self.signature(header.sh_info(LE), what)?;
            let hash = names::hash(signature.bytes(self.bytes));
            let first = self.length(&self.members)?;
            for member in members {
                let section = self.loaded_index(member.get(LE), || what.to_string())?;
                self.members.extend(section);
            }
            let sections = first..self.length(&self.members)?;
            self.groups.push(Group { signature, hash, sections });
        }
        Ok(())
    }

    fn signature(&mut self, symbol: u32, what: Arguments<'_>) -> Result<Name> {
        let Some(symbol) = self.symbols.get(symbol as usize).filter(|_| symbol != 0) else {
            return Err(self.error(format!(
                "{what}: signature is symbol {symbol}, and there are {} symbols",
                self.symbols.len()
            )));
        };
        let name = match (symbol.kind, symbol.place) {
            (SymbolKind::Anonymous, Place::Section(section)) if !symbol.is_global => {
                self.sections[section as usize].name
            }
            _ => symbol.name,
        };
        let bytes = name.bytes(self.bytes).len();
        if bytes == 0 {
            return Err(
                self.error(format!("{what}: its signature has no name that is printable UTF-8"))
            );
        }
        self.count_name(bytes)?;
        Ok(name)
    }
}
