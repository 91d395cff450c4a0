//! The table of call sites of a function: where its compiler promised that an unwinding may begin.
//!
//! The format is GCC's for language-specific data, which C, C++ and Rust share ("Exception Handling Tables" of the Itanium C++
//! ABI). A function without such data has no cleanups, and can be left anywhere.
//!
//! A malformed table counts as a table without the address.

use super::cursor::Cursor;

/// An encoding of DWARF that says "there is none".
const OMITTED: u8 = 0xff;

/// The answer of a function's table for an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::executor::interrupt) enum CallSite {
    /// The function has no table: nothing runs, and nothing refuses.
    NoTable,
    /// An unwinding may pass or begin here, and runs nothing.
    Passes,
    /// An unwinding may pass here, and runs cleanups or handlers.
    Lands,
    /// An unwinding must not arrive here. The function would end the process, or run cleanups that are not due. A compiler may join calls
    /// that throw with silent calls between them, and only the last call certainly throws.
    Refused,
}

/// Looks the address of a call's last byte up in the table at `table`, of the function that starts at `function`. Address 0 is no table.
/// Also true if the function catches every exception there.
pub(in crate::executor::interrupt) fn at(
    table: u64,
    function: u64,
    address: u64,
) -> (CallSite, bool) {
    if table == 0 {
        return (CallSite::NoTable, false);
    }
    let entry = entry(Cursor(table), function, address);
    let catches_all = entry.as_ref().is_some_and(|entry| entry.catches_all);
    let site = match entry {
        Some(Entry { landing_pad: 0, .. }) => CallSite::Passes,
        Some(Entry { end, .. }) if end == address.wrapping_add(1) => CallSite::Lands,
        Some(_) | None => CallSite::Refused,
    };
    (site, catches_all)
}

/// True if a function with this table catches every exception anywhere.
pub(in crate::executor::interrupt) fn catches_all(table: u64) -> bool {
    table != 0 && Table::read(Cursor(table)).is_some_and(|table| table.catches_all_anywhere())
}

/// An entry of the table.
struct Entry {
    /// The address behind its last call.
    end: u64,
    /// The offset of its cleanups and handlers; 0 for none.
    landing_pad: u64,
    catches_all: bool,
}

/// The parts of a table.
struct Table {
    /// The entries, and their encoding.
    entries: Cursor,
    encoding: u8,
    /// The end of the entries, where the actions begin.
    end: u64,
    /// The end of the types, which an action counts backwards from, and the bytes of a type; no bytes if there are no types.
    types: u64,
    type_bytes: u64,
}

impl Table {
    fn read(mut cursor: Cursor) -> Option<Self> {
        let start_encoding = cursor.byte();
        if start_encoding != OMITTED {
            encoded(&mut cursor, start_encoding)?;
        }
        let type_encoding = cursor.byte();
        let types = if type_encoding == OMITTED {
            0
        } else {
            let distance = cursor.uleb128();
            cursor.0.checked_add(distance)?
        };
        let type_bytes = match type_encoding & 0x0f {
            _ if types == 0 => 0,
            0x02 | 0x0a => 2,
            0x03 | 0x0b => 4,
            _ => 8,
        };
        let encoding = cursor.byte();
        let bytes = cursor.uleb128();
        let end = cursor.0.checked_add(bytes)?;
        Some(Self { entries: cursor, encoding, end, types, type_bytes })
    }

    /// True if the chain of actions with this place has one for every exception. Place 0 is no action.
    fn catches_all(&self, place: u64) -> bool {
        let mut at = match place {
            0 => return false,
            _ => self.end.wrapping_add(place - 1),
        };
        loop {
            let mut cursor = Cursor(at);
            let number = cursor.sleb128();
            let from = cursor.0;
            let next = cursor.sleb128();
            if number > 0 && self.type_bytes > 0 {
                let back = number.unsigned_abs().saturating_mul(self.type_bytes);
                let bytes = u32::try_from(self.type_bytes).unwrap_or(8);
                if Cursor(self.types.wrapping_sub(back)).little_endian(bytes) == 0 {
                    return true;
                }
            }
            // Actions that lead backwards in a circle are no compiler's.
            if next <= 0 {
                return false;
            }
            at = from.wrapping_add_signed(next);
        }
    }

    fn catches_all_anywhere(&self) -> bool {
        let mut cursor = Cursor(self.entries.0);
        while cursor.0 < self.end {
            let site = [(); 3].map(|()| encoded(&mut cursor, self.encoding));
            let action = cursor.uleb128();
            if site.contains(&None) || self.catches_all(action) {
                return site.iter().all(Option::is_some);
            }
        }
        false
    }
}

/// The entry with this address.
fn entry(cursor: Cursor, function: u64, address: u64) -> Option<Entry> {
    let table = Table::read(cursor)?;
    let mut cursor = Cursor(table.entries.0);
    let offset = address.checked_sub(function)?;
    while cursor.0 < table.end {
        let start = encoded(&mut cursor, table.encoding)?;
        let length = encoded(&mut cursor, table.encoding)?;
        let landing_pad = encoded(&mut cursor, table.encoding)?;
        let action = cursor.uleb128();
        if offset < start {
            // The entries go up.
            return None;
        }
        if offset - start < length {
            let end = function.checked_add(start)?.checked_add(length)?;
            let catches_all = landing_pad != 0 && table.catches_all(action);
            return Some(Entry { end, landing_pad, catches_all });
        }
    }
    None
}

/// A number of a format that call sites use. They are relative to the function, whatever the other bits of the encoding say.
fn encoded(cursor: &mut Cursor, encoding: u8) -> Option<u64> {
    match encoding & 0x0f {
        0x00 | 0x04 | 0x0c => Some(cursor.little_endian(8)),
        0x01 => Some(cursor.uleb128()),
        0x02 | 0x0a => Some(cursor.little_endian(2)),
        0x03 | 0x0b => Some(cursor.little_endian(4)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table with these call sites, each of a start, a length, and the address of its cleanups.
    fn table(sites: &[(u8, u8, u8)]) -> Vec<u8> {
        let mut bytes = vec![OMITTED, OMITTED, 0x01, u8::try_from(4 * sites.len()).expect("few")];
        for (start, length, cleanups) in sites {
            bytes.extend([*start, *length, *cleanups, 0]);
        }
        bytes
    }

    #[test]
    fn cleanups_are_due_at_the_last_call_of_an_entry_only() {
        let bytes = table(&[(4, 5, 0x40), (20, 2, 0)]);
        let at =
            |offset: u64| at(bytes.as_ptr().expose_provenance() as u64, 0x1000, 0x1000 + offset);
        for (inside, expected) in [
            (4, CallSite::Refused),
            (7, CallSite::Refused),
            (8, CallSite::Lands),
            (20, CallSite::Passes),
            (21, CallSite::Passes),
        ] {
            assert_eq!(at(inside), (expected, false), "{inside}");
        }
        for outside in [0, 3, 9, 19, 22, 1000] {
            assert_eq!(at(outside), (CallSite::Refused, false), "{outside}");
        }
    }

    #[test]
    fn a_function_without_a_table_can_be_left_anywhere() {
        assert_eq!(at(0, 0x1000, 0x1234), (CallSite::NoTable, false));
    }

    #[test]
    fn a_table_of_words_is_read_as_one_of_variable_numbers() {
        let mut bytes = vec![OMITTED, OMITTED, 0x03, 13];
        bytes.extend(7_u32.to_le_bytes());
        bytes.extend(2_u32.to_le_bytes());
        bytes.extend(9_u32.to_le_bytes());
        bytes.push(0);
        let at = |offset: u64| at(bytes.as_ptr().expose_provenance() as u64, 16, 16 + offset);
        assert_eq!(at(7), (CallSite::Refused, false));
        assert_eq!(at(8), (CallSite::Lands, false));
        assert_eq!(at(9), (CallSite::Refused, false));
    }

    #[test]
    fn a_function_that_catches_everything_is_known() {
        // Two calls: an action for a type with an address, and one behind it for every type. A filter is no catch.
        let mut bytes = vec![OMITTED, 0x03, 0, 0x01, 12];
        bytes.extend([4, 5, 0x40, 1, 20, 2, 0x50, 3, 30, 2, 0x60, 5]);
        bytes.extend([2, 0, 1, 0x7d, 0x7f, 0]);
        bytes.extend([1, 2, 3, 4, 0, 0, 0, 0]);
        bytes[2] = u8::try_from(bytes.len() - 3).expect("few");
        let table = bytes.as_ptr().expose_provenance() as u64;
        let at = |offset: u64| at(table, 0x1000, 0x1000 + offset);
        assert_eq!(at(8), (CallSite::Lands, false), "of one type");
        assert_eq!(at(20), (CallSite::Refused, true), "of every type");
        assert_eq!(at(31), (CallSite::Lands, false), "a filter");
        assert!(catches_all(table) && !catches_all(0));
    }
}
