//! COMDAT groups: sections of which a program keeps one copy.
//!
//! Invariant: a group has a name, and names only loaded sections of its object.

use std::sync::Arc;

use object::read::elf::SectionHeader;
use object::{LittleEndian, U32, elf};

use super::{LE, Reader};
use crate::error::Result;
use crate::link::read::parsed::{Group, Place, SymbolKind};

impl Reader<'_> {
    pub(super) fn read_groups(&mut self) -> Result<()> {
        for (index, header) in self.table.enumerate() {
            if header.sh_type(LE) != elf::SHT_GROUP {
                continue;
            }
            let what = format!("section group {}", index.0);
            let range = self.content_range(&what, header.sh_offset(LE), header.sh_size(LE))?;
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
            let signature = self.signature(header.sh_info(LE), &what)?;
            let sections = self.group_members(members, &what)?;
            self.groups.push(Group { signature, sections });
        }
        Ok(())
    }

    fn signature(&mut self, symbol: u32, what: &str) -> Result<Arc<str>> {
        let Some(symbol) = self.symbols.get(symbol as usize).filter(|_| symbol != 0) else {
            return Err(self.error(format!(
                "{what}: signature is symbol {symbol}, and there are {} symbols",
                self.symbols.len()
            )));
        };
        if let Some(name) = &symbol.global {
            return Ok(Arc::clone(name));
        }
        let name = match (symbol.kind, symbol.place) {
            (SymbolKind::Anonymous, Place::Section(section)) => {
                self.sections[section as usize].name
            }
            _ => symbol.name,
        };
        let text = self.text(name);
        if text.is_empty() {
            return Err(
                self.error(format!("{what}: its signature has no name that is printable UTF-8"))
            );
        }
        self.count_name(text.len())?;
        Ok(Arc::from(text))
    }

    fn group_members(&self, members: &[U32<LittleEndian>], what: &str) -> Result<Vec<u32>> {
        let mut sections = Vec::new();
        for member in members {
            sections.extend(self.loaded_index(member.get(LE), what)?);
        }
        Ok(sections)
    }
}
