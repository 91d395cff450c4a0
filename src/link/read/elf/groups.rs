//! COMDAT groups, and what compilers made before there were any: sections of which a program keeps one copy.
//!
//! Invariant: a group has a name, and names only loaded sections of its object.

use std::collections::HashSet;
use std::fmt::Arguments;

use object::elf;
use object::read::elf::SectionHeader;

use super::{LE, Reader};
use crate::error::Result;
use crate::read::names;
use crate::read::parsed::{Group, Name, Place, SymbolKind};

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
        self.add_link_once()
    }

    /// Makes a group of each section whose name starts with `.gnu.linkonce.`, under this name.
    fn add_link_once(&mut self) -> Result<()> {
        let is_link_once = |name: Name| name.bytes(self.bytes).starts_with(b".gnu.linkonce.");
        let sections = (0..).zip(self.sections.iter().map(|section| section.name));
        let found: Vec<(u32, Name)> = sections.filter(|(_, name)| is_link_once(*name)).collect();
        if found.is_empty() {
            return Ok(());
        }
        let grouped: HashSet<u32> = self.members.iter().copied().collect();
        for (section, signature) in found {
            if grouped.contains(&section) {
                continue;
            }
            let bytes = signature.bytes(self.bytes);
            let hash = names::hash(bytes);
            self.count_name(bytes.len())?;
            let first = self.length(&self.members)?;
            self.members.push(section);
            self.groups.push(Group { signature, hash, sections: first..first + 1 });
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
