//! The type of a function, from the DWARF of its object.
//!
//! Invariant: what is damaged, missing or has no counterpart in [`types`](crate::types) is no prototype. Work has the bounds below.

use std::sync::Arc;

use gimli::{
    AttributeValue, DwAt, Dwarf, EndianSlice, EntriesTreeNode, LittleEndian, Unit, UnitOffset,
};

use super::debug_sections::section;
use super::placed_object::PlacedObject;
use crate::types::{Signature, Struct, Type};

/// How many units of an object are searched. A compiler makes one, a partial link a few.
const UNITS_MAX: usize = 256;
/// How many entries one prototype may lead to.
const ENTRIES_MAX: usize = 4096;
/// How deep types may lie in each other.
const DEPTH_MAX: usize = 32;

type Text<'a> = EndianSlice<'a, LittleEndian>;

/// Reads the types of one unit.
struct Reader<'a> {
    dwarf: &'a Dwarf<Text<'a>>,
    unit: &'a Unit<Text<'a>>,
    entries_left: usize,
}

impl PlacedObject {
    /// The type of a function that the object defines, as its debug information says. `None` when the object was compiled without
    /// (`-g`), or the information is compressed or damaged. Also for a variadic function, one without a prototype, and one whose types
    /// [`types`](crate::types) cannot say: unions, bit-fields, classes of C++.
    ///
    /// # Examples
    ///
    /// ```
    #[doc = include_str!("../compile.txt")]
    /// use farcall_link::ExecutorAddr;
    /// use farcall_link::LinkGraph;
    ///
    /// let mut graph = LinkGraph::new();
    /// graph.add_object(&compile("int answer(void) { return 42; }")?)?;
    /// let bases = [0x10000, 0x20000, 0x30000].map(ExecutorAddr::new);
    /// let object = &graph.layout()?.objects(bases)[0]; // compiled with -g
    /// let answer = object.prototype("answer").expect("its debug information has the type");
    /// assert_eq!(answer.to_string(), "int32_t answer(void)");
    /// assert!(object.prototype("question").is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn prototype(&self, function: &str) -> Option<Signature> {
        let sections =
            gimli::DwarfSections::load(|id| Ok::<_, ()>(section(self, id.name()))).ok()?;
        let dwarf = sections.borrow(|bytes| Text::new(bytes, LittleEndian));
        let mut headers = dwarf.units();
        for _ in 0..UNITS_MAX {
            let unit = dwarf.unit(headers.next().ok()??).ok()?;
            let mut reader = Reader { dwarf: &dwarf, unit: &unit, entries_left: ENTRIES_MAX };
            if let Some(at) = reader.find(function) {
                return reader.signature(at).map(|signature| signature.named(function));
            }
        }
        None
    }
}

impl Reader<'_> {
    /// Where the function with this name for the linker is defined.
    fn find(&self, function: &str) -> Option<UnitOffset> {
        let mut entries = self.unit.entries();
        while let Ok(Some(entry)) = entries.next_dfs() {
            if entry.tag() != gimli::DW_TAG_subprogram
                || entry.attr_value(gimli::DW_AT_external).is_none()
                || entry.attr_value(gimli::DW_AT_declaration).is_some()
            {
                continue;
            }
            let linkage = entry.attr_value(gimli::DW_AT_linkage_name);
            let name = linkage.or_else(|| entry.attr_value(gimli::DW_AT_name));
            let text = name.and_then(|name| self.dwarf.attr_string(self.unit, name).ok());
            if text.is_some_and(|text| text.slice() == function.as_bytes()) {
                return Some(entry.offset());
            }
        }
        None
    }

    fn signature(&mut self, at: UnitOffset) -> Option<Signature> {
        let mut signature = Signature::new();
        let mut tree = self.unit.entries_tree(Some(at)).ok()?;
        let node = tree.root().ok()?;
        let is_prototyped = node.entry().attr_value(gimli::DW_AT_prototyped).is_some();
        match reference(&node, gimli::DW_AT_type) {
            None => {}
            Some(at) => signature = signature.returns(self.kind(at, 0)?),
        }
        let mut children = node.children();
        while let Some(child) = children.next().ok()? {
            match child.entry().tag() {
                gimli::DW_TAG_formal_parameter => {
                    let at = reference(&child, gimli::DW_AT_type)?;
                    signature = signature.parameter(self.kind(at, 0)?);
                }
                gimli::DW_TAG_unspecified_parameters => return None,
                _ => {}
            }
        }
        // `f()` of C before C23 says nothing of its parameters.
        let is_known = is_prototyped || !signature.parameters().is_empty();
        is_known.then_some(signature)
    }

    /// The type at an offset.
    fn kind(&mut self, at: UnitOffset, depth: usize) -> Option<Type> {
        self.entries_left = self.entries_left.checked_sub(1)?;
        if depth == DEPTH_MAX {
            return None;
        }
        let entry = self.unit.entry(at).ok()?;
        let number = |name: DwAt| entry.attr_value(name).and_then(|value| value.udata_value());
        let bytes = number(gimli::DW_AT_byte_size);
        match entry.tag() {
            gimli::DW_TAG_base_type => {
                let encoding = entry.attr_value(gimli::DW_AT_encoding);
                let AttributeValue::Encoding(encoding) = encoding? else { return None };
                base(encoding, bytes?)
            }
            gimli::DW_TAG_pointer_type
            | gimli::DW_TAG_reference_type
            | gimli::DW_TAG_rvalue_reference_type => Some(Type::Pointer),
            gimli::DW_TAG_typedef
            | gimli::DW_TAG_const_type
            | gimli::DW_TAG_volatile_type
            | gimli::DW_TAG_restrict_type
            | gimli::DW_TAG_atomic_type => {
                let at = offset(entry.attr_value(gimli::DW_AT_type)?)?;
                self.kind(at, depth + 1)
            }
            gimli::DW_TAG_enumeration_type => match entry.attr_value(gimli::DW_AT_type) {
                Some(of) => self.kind(offset(of)?, depth + 1),
                None => (bytes? == 4).then_some(Type::U32),
            },
            gimli::DW_TAG_structure_type => self.structure(at, depth + 1),
            gimli::DW_TAG_array_type => self.array(at, depth + 1),
            _ => None,
        }
    }

    fn structure(&mut self, at: UnitOffset, depth: usize) -> Option<Type> {
        let mut tree = self.unit.entries_tree(Some(at)).ok()?;
        let node = tree.root().ok()?;
        let entry = node.entry();
        let text = entry.attr_value(gimli::DW_AT_name);
        let text = text.and_then(|name| self.dwarf.attr_string(self.unit, name).ok());
        let name = text.map_or_else(String::new, |text| text.to_string_lossy().into_owned());
        let bytes = entry.attr_value(gimli::DW_AT_byte_size)?.udata_value()?;
        let by_reference = AttributeValue::CallingConvention(gimli::DW_CC_pass_by_reference);
        if entry.attr_value(gimli::DW_AT_calling_convention) == Some(by_reference) {
            return None;
        }
        let mut one = Struct::new(name);
        let mut children = node.children();
        while let Some(member) = children.next().ok()? {
            self.entries_left = self.entries_left.checked_sub(1)?;
            let entry = member.entry();
            let is_field = entry.tag() == gimli::DW_TAG_member;
            if !is_field || entry.attr_value(gimli::DW_AT_bit_size).is_some() {
                return None;
            }
            let kind = self.kind(reference(&member, gimli::DW_AT_type)?, depth)?;
            let place =
                member.entry().attr_value(gimli::DW_AT_data_member_location)?.udata_value()?;
            one = one.field("", kind);
            // Packed, or aligned by an attribute.
            if one.fields().last()?.offset as u64 != place {
                return None;
            }
        }
        (one.bytes() as u64 == bytes && !one.fields().is_empty())
            .then(|| Type::Struct(Arc::new(one)))
    }

    fn array(&mut self, at: UnitOffset, depth: usize) -> Option<Type> {
        let mut tree = self.unit.entries_tree(Some(at)).ok()?;
        let node = tree.root().ok()?;
        let is_vector = node.entry().attr_value(gimli::DW_AT_GNU_vector).is_some();
        let element = self.kind(reference(&node, gimli::DW_AT_type)?, depth)?;
        let mut counts = Vec::new();
        let mut children = node.children();
        while let Some(child) = children.next().ok()? {
            self.entries_left = self.entries_left.checked_sub(1)?;
            let number =
                |name| child.entry().attr_value(name).and_then(|value| value.udata_value());
            let count = number(gimli::DW_AT_count);
            let last = || number(gimli::DW_AT_upper_bound)?.checked_add(1);
            counts.push(usize::try_from(count.or_else(last)?).ok()?);
        }
        let array = counts.into_iter().rev().fold(element, Type::array);
        match (is_vector, array.bytes()) {
            (false, _) => Some(array),
            (true, 16) => Some(Type::V128),
            (true, _) => None,
        }
    }
}

/// The base type of this encoding and size.
fn base(encoding: gimli::DwAte, bytes: u64) -> Option<Type> {
    let signed = [(1, Type::I8), (2, Type::I16), (4, Type::I32), (8, Type::I64)];
    let unsigned = [(1, Type::U8), (2, Type::U16), (4, Type::U32), (8, Type::U64)];
    let floats = [(4, Type::F32), (8, Type::F64)];
    let kinds = match encoding {
        gimli::DW_ATE_boolean => return (bytes == 1).then_some(Type::Bool),
        gimli::DW_ATE_signed | gimli::DW_ATE_signed_char => &signed[..],
        gimli::DW_ATE_unsigned | gimli::DW_ATE_unsigned_char | gimli::DW_ATE_UTF => &unsigned[..],
        gimli::DW_ATE_float => &floats[..],
        _ => return None,
    };
    kinds.iter().find(|(size, _)| *size == bytes).map(|(_, kind)| kind.clone())
}

/// The entry that an attribute of a node refers to.
fn reference(node: &EntriesTreeNode<'_, '_, Text<'_>>, name: DwAt) -> Option<UnitOffset> {
    offset(node.entry().attr_value(name)?)
}

/// An offset in the same unit. Others do not occur in the object of one compilation.
fn offset(value: AttributeValue<Text<'_>>) -> Option<UnitOffset> {
    match value {
        AttributeValue::UnitRef(at) => Some(at),
        _ => None,
    }
}
