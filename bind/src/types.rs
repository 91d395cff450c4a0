//! Types of libclang as types of a header.

use std::collections::{HashMap, HashSet};

use clang::{Entity, EntityKind, Type as ClangType, TypeKind};

use crate::header::{Field, Number, Parameter, Prototype, Record, Type};

/// How deep types may lie in each other.
const DEPTH_MAX: usize = 24;
/// The most elements of an array in a structure.
const ELEMENTS_MAX: u64 = 1 << 16;

/// The structures that have been read.
#[derive(Default)]
pub(crate) struct Types {
    records: Vec<Record>,
    known: HashSet<String>,
    /// The names of structures by their declarations.
    names: HashMap<String, String>,
}

impl Types {
    pub(crate) fn into_records(self) -> Vec<Record> {
        self.records
    }

    /// The type, with the structures that it names.
    pub(crate) fn of(&mut self, kind: &ClangType<'_>, depth: usize) -> Type {
        let canonical = kind.get_canonical_type();
        let other = || Type::Other(kind.get_display_name());
        if depth > DEPTH_MAX {
            return other();
        }
        match canonical.get_kind() {
            TypeKind::Void => Type::Void,
            TypeKind::Pointer => match canonical.get_pointee_type() {
                Some(target) => Type::Pointer(
                    Box::new(self.of(&target, depth + 1)),
                    target.is_const_qualified(),
                ),
                None => other(),
            },
            TypeKind::Enum => {
                let underlying =
                    canonical.get_declaration().and_then(|one| one.get_enum_underlying_type());
                let underlying =
                    underlying.and_then(|kind| number(kind.get_canonical_type().get_kind()));
                underlying.map_or_else(other, Type::Number)
            }
            TypeKind::Record => self.record(&canonical, depth).map_or_else(other, Type::Record),
            TypeKind::ConstantArray => match (canonical.get_element_type(), canonical.get_size()) {
                (Some(element), Some(count)) if count as u64 <= ELEMENTS_MAX => {
                    Type::Array(Box::new(self.of(&element, depth + 1)), count as u64)
                }
                _ => other(),
            },
            kind if is_function(kind) => self
                .prototype(&canonical, depth)
                .map_or_else(other, |one| Type::Function(Box::new(one))),
            kind => number(kind).map_or_else(other, Type::Number),
        }
    }

    fn prototype(&mut self, kind: &ClangType<'_>, depth: usize) -> Option<Prototype> {
        let types = kind.get_argument_types()?;
        let mut parameters = Vec::new();
        for one in &types {
            parameters.push(Parameter { name: String::new(), kind: self.of(one, depth + 1) });
        }
        let result = self.of(&kind.get_result_type()?, depth + 1);
        Some(Prototype { parameters, result, is_variadic: kind.is_variadic() })
    }

    /// The name of a structure, which is read if it is complete.
    fn record(&mut self, kind: &ClangType<'_>, depth: usize) -> Option<String> {
        let declaration = kind.get_declaration()?;
        let name = self.name(&declaration, kind)?;
        if name == "__va_list_tag" {
            return None;
        }
        if declaration.get_definition().is_none() || !self.known.insert(name.clone()) {
            return Some(name);
        }
        let (Ok(bytes), Ok(alignment)) = (kind.get_sizeof(), kind.get_alignof()) else {
            return Some(name);
        };
        let fields = match declaration.get_kind() {
            EntityKind::StructDecl => self.fields(kind, depth),
            _ => None,
        };
        let is_flexible = kind
            .get_fields()
            .and_then(|fields| fields.last()?.get_type())
            .is_some_and(|kind| kind.get_kind() == TypeKind::IncompleteArray);
        self.records.push(Record {
            name: name.clone(),
            bytes: bytes as u64,
            alignment: alignment as u64,
            is_flexible,
            fields,
        });
        Some(name)
    }

    /// The fields, if each has a name, whole bytes and a type that crosses.
    fn fields(&mut self, kind: &ClangType<'_>, depth: usize) -> Option<Vec<Field>> {
        let mut fields = Vec::new();
        for entity in kind.get_fields()? {
            let kind = entity.get_type()?;
            if kind.get_kind() == TypeKind::IncompleteArray {
                return None;
            }
            let bits = entity.get_offset_of_field().ok()?;
            let name = entity.get_name().filter(|name| is_name(name))?;
            if entity.is_bit_field() || bits % 8 != 0 {
                return None;
            }
            let kind = self.of(&kind, depth + 1);
            if !crosses(&kind) {
                return None;
            }
            fields.push(Field { name, offset: bits as u64 / 8, kind });
        }
        Some(fields)
    }

    /// The name of a structure: its own, else its `typedef`'s, else a number. Two structures have two names.
    fn name(&mut self, declaration: &Entity<'_>, kind: &ClangType<'_>) -> Option<String> {
        let place = declaration.get_usr()?.0;
        if let Some(name) = self.names.get(&place) {
            return Some(name.clone());
        }
        let shown = kind.get_display_name();
        let shown = shown
            .trim_start_matches("const ")
            .trim_start_matches("struct ")
            .trim_start_matches("union ");
        let own = declaration.get_name().filter(|name| is_name(name));
        let named = own.or_else(|| is_name(shown).then(|| shown.to_owned()));
        let mut name = named.unwrap_or_else(|| format!("unnamed_{}", self.names.len() + 1));
        while self.names.values().any(|other| *other == name) {
            name.push('_');
        }
        self.names.insert(place, name.clone());
        Some(name)
    }
}

/// True for fields that are copied: also pointers, as addresses.
fn crosses(kind: &Type) -> bool {
    match kind {
        Type::Number(_) | Type::Pointer(..) | Type::Record(_) => true,
        Type::Array(element, _) => crosses(element),
        Type::Void | Type::Function(_) | Type::Other(_) => false,
    }
}

/// True for a name of C, and not for what libclang writes for a missing one.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

/// The number of that kind, on Linux with 64 bits.
pub(crate) fn number(kind: TypeKind) -> Option<Number> {
    Some(match kind {
        TypeKind::Bool => Number::Bool,
        TypeKind::CharS | TypeKind::CharU => Number::Char,
        TypeKind::SChar => Number::I8,
        TypeKind::UChar => Number::U8,
        TypeKind::Short => Number::I16,
        TypeKind::UShort | TypeKind::Char16 => Number::U16,
        TypeKind::Int | TypeKind::WChar => Number::I32,
        TypeKind::UInt | TypeKind::Char32 => Number::U32,
        TypeKind::Long | TypeKind::LongLong => Number::I64,
        TypeKind::ULong | TypeKind::ULongLong => Number::U64,
        TypeKind::Float => Number::F32,
        TypeKind::Double => Number::F64,
        _ => return None,
    })
}

/// True for types of functions.
fn is_function(kind: TypeKind) -> bool {
    matches!(kind, TypeKind::FunctionPrototype | TypeKind::FunctionNoPrototype)
}
