//! Which sections are loaded, and whether they are sound.
//!
//! Invariant: a section that is accepted has its bytes in the file, and an alignment that the layout can give. It is not both
//! writable and executable.

use object::elf;
use object::read::elf::SectionHeader;

use super::section_role::{is_loaded, is_never_loaded, is_relro, role};
use super::{HeaderOfSection, LE, Reader, file_kind};
use crate::addr::Prot;
use crate::error::{Error, Result};
use crate::limits::{ALIGNMENT_MAX, PAGE_BYTES};
use crate::read::parsed::{Name, Role, Section};

impl Reader<'_> {
    pub(super) fn read_sections(&mut self) -> Result<()> {
        let mut has_lto = false;
        let mut has_bytes = false;
        let mut links = Vec::new();
        for (index, header) in self.table.enumerate().skip(1) {
            let bytes = self.table.section_name(LE, header);
            let bytes =
                bytes.map_err(|error| self.error(format!("section {}: {error}", index.0)))?;
            if is_never_loaded(header) {
                continue;
            }
            let name = self.name_of(bytes)?.unwrap_or_default();
            let text = self.text(name);
            has_lto |= text.starts_with(".gnu.lto_");
            self.runs_on_stack |=
                text == ".note.GNU-stack" && header.sh_flags(LE).contains(elf::SHF_EXECINSTR);
            if !is_loaded(text, header) {
                continue;
            }
            let number =
                u32::try_from(index.0).map_err(|_| self.error("more than 2^32 sections"))?;
            let section = self.read_section(text, name, number, header)?;
            has_bytes |= section.bytes > 0;
            let slot = self.next_section()?;
            if header.sh_flags(LE).contains(elf::SHF_LINK_ORDER) && header.sh_link(LE) != 0 {
                links.push((slot, header.sh_link(LE)));
            }
            self.loaded[index.0] = Some(slot);
            self.sections.push(section);
        }
        if has_lto && !has_bytes {
            return Err(self.error(file_kind::LTO));
        }
        for (slot, link) in links {
            let target = self.loaded_index(link, || "sh_link".to_owned())?;
            self.sections[slot as usize].linked_to = target;
        }
        Ok(())
    }

    fn read_section(
        &mut self,
        text: &str,
        name: Name,
        number: u32,
        header: &HeaderOfSection,
    ) -> Result<Section> {
        let flags = header.sh_flags(LE);
        let bytes = header.sh_size(LE);
        let object = self.name;
        let at = |what: String| Error::link(format!("{object}: section {text}: {what}"));
        if flags.contains(elf::SHF_COMPRESSED) {
            return Err(at("compressed, which a loaded section must not be".to_owned()));
        }
        let executable = flags.contains(elf::SHF_EXECINSTR);
        // A link loads only the initial values of thread-locals, from which threads get their copies.
        let constant = is_relro(text, header) || flags.contains(elf::SHF_TLS);
        let writable = flags.contains(elf::SHF_WRITE) && !constant;
        if executable && flags.contains(elf::SHF_WRITE) {
            return Err(at("writable and executable; split it into code and data".to_owned()));
        }
        let alignment = header.sh_addralign(LE).max(1);
        let (alignment_max, of_what) = match flags.contains(elf::SHF_TLS) {
            true => (PAGE_BYTES, " for thread-locals"),
            false => (ALIGNMENT_MAX, ""),
        };
        if !alignment.is_power_of_two() || alignment > alignment_max {
            return Err(at(format!(
                "alignment {alignment}; at most {alignment_max}{of_what} and a power of two is possible; for \
                 more, take memory from aligned_alloc when the program runs"
            )));
        }
        let content = match header.file_range(LE) {
            Some((offset, size)) => {
                Some(self.content_range(format_args!("section {text}"), offset, size)?)
            }
            None if executable => {
                return Err(at("executable but without bytes (NOBITS)".to_owned()));
            }
            None => None,
        };
        let role = role(text, header);
        let is_array =
            matches!(role, Role::PreinitArray | Role::InitArray { .. } | Role::FiniArray { .. });
        if is_array && (!bytes.is_multiple_of(8) || content.is_none()) {
            return Err(at(format!("{bytes} bytes are not an array of 8-byte function pointers")));
        }
        if executable && !matches!(role, Role::Plain | Role::Fragment(_)) {
            return Err(at(
                "executable, and yet no code; its flags should be \"a\" or \"aw\"".to_owned()
            ));
        }
        let prot = match (executable, writable) {
            (true, _) => Prot::Code,
            (false, true) => Prot::Data,
            (false, false) => Prot::Constants,
        };
        Ok(Section {
            number,
            name,
            role,
            prot,
            alignment,
            bytes,
            content,
            edges: 0..0,
            linked_to: None,
            is_named: is_c_identifier(text),
            is_low: false,
        })
    }

    fn next_section(&self) -> Result<u32> {
        u32::try_from(self.sections.len()).map_err(|_| self.error("more than 2^32 sections"))
    }
}

/// True for the names of sections that have bounds.
fn is_c_identifier(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
