//! How a type crosses, told from its name.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{
    Error, GenericArgument, PathArguments, Result, ReturnType, Type, TypeArray, TypePath,
    TypeReference, TypeSlice,
};

/// The form of a value in a message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Nothing.
    Unit,
    /// A number, or an array of numbers.
    Number,
    /// A `&str`, or what it is borrowed from.
    Text,
    /// A slice of numbers, or what it is borrowed from.
    Numbers,
    /// The form of serde.
    Value,
}

/// The form of a parameter, and how the function takes it.
pub(crate) struct Parameter {
    pub(crate) form: Form,
    pub(crate) passing: Passing,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Passing {
    /// The value itself.
    Owned,
    /// A reference to a value.
    Borrowed,
    /// A slice, or `&str`.
    View,
}

/// The form of a result: of the value, and whether it is in a `Result`.
pub(crate) struct Outcome {
    pub(crate) form: Form,
    pub(crate) is_result: bool,
}

/// Types that are always behind a reference.
const UNSIZED: [&str; 3] = ["Path", "CStr", "OsStr"];

const NUMBERS: [&str; 14] = [
    "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize", "f32",
    "f64",
];

impl Parameter {
    /// # Errors
    ///
    /// When no value of the type can cross.
    pub(crate) fn new(kind: &Type) -> Result<Self> {
        let Type::Reference(TypeReference { mutability, elem, .. }) = bare(kind) else {
            let form = Form::of(kind)?;
            return Ok(Self { form, passing: Passing::Owned });
        };
        if mutability.is_some() {
            return Err(Error::new_spanned(
                kind,
                "`&mut` does not cross: the function has memory of its own; return the new value",
            ));
        }
        Ok(match bare(elem) {
            Type::Slice(TypeSlice { elem, .. }) if is_number(elem) => {
                Self { form: Form::Numbers, passing: Passing::View }
            }
            Type::Slice(slice) => {
                Form::of(&slice.elem)?;
                Self { form: Form::Value, passing: Passing::View }
            }
            Type::Path(path) if path.path.is_ident("str") => {
                Self { form: Form::Text, passing: Passing::View }
            }
            Type::Path(path) if UNSIZED.iter().any(|name| path.path.is_ident(name)) => {
                return Err(Error::new_spanned(
                    kind,
                    "this reference has no form in a message; take `&str` or an owned value, such as `PathBuf` or `CString`",
                ));
            }
            other => Self { form: Form::of(other)?, passing: Passing::Borrowed },
        })
    }
}

impl Outcome {
    /// # Errors
    ///
    /// When no value of the type can cross.
    pub(crate) fn new(result: &ReturnType) -> Result<Self> {
        let ReturnType::Type(_, kind) = result else {
            return Ok(Self { form: Form::Unit, is_result: false });
        };
        refuse_references(kind)?;
        if let Some(arguments) = generic(kind, "Result") {
            let form = arguments.first().map_or(Ok(Form::Value), |value| Form::of(value))?;
            return Ok(Self { form, is_result: true });
        }
        Ok(Self { form: Form::of(kind)?, is_result: false })
    }
}

impl Form {
    fn of(kind: &Type) -> Result<Self> {
        let refuse = |message| Err(Error::new_spanned(kind, message));
        match bare(kind) {
            Type::Tuple(tuple) if tuple.elems.is_empty() => Ok(Self::Unit),
            Type::Array(TypeArray { elem, .. }) if is_number(elem) => Ok(Self::Number),
            Type::Path(_) if is_number(kind) => Ok(Self::Number),
            Type::Path(TypePath { path, .. }) if path.is_ident("String") => Ok(Self::Text),
            Type::Path(TypePath { path, .. }) if path.is_ident("Self") => {
                refuse("`Self` does not cross: an isolated function stands alone")
            }
            Type::Path(_) => Ok(match generic(kind, "Vec") {
                Some(elements)
                    if elements.iter().all(|kind| is_number(kind)) && elements.len() == 1 =>
                {
                    Self::Numbers
                }
                _ => Self::Value,
            }),
            Type::BareFn(_) => {
                refuse("a function does not cross: its address means nothing in the other process")
            }
            Type::ImplTrait(_) | Type::TraitObject(_) => {
                refuse("a closure or a trait does not cross: take and return values of known types")
            }
            Type::Ptr(_) => {
                refuse("a pointer does not cross: its address means nothing in the other process")
            }
            Type::Never(_) => refuse("an isolated function returns"),
            Type::Infer(_) => refuse("the types of an isolated function are written out"),
            _ => Ok(Self::Value),
        }
    }

    /// Writes the value that `place`, a reference, leads to.
    pub(crate) fn write(self, place: &TokenStream) -> TokenStream {
        match self {
            Self::Unit => quote!({ let () = *#place; }),
            Self::Number => quote!(farcall_writer.number(#place);),
            Self::Text => quote!(farcall_writer.text(#place);),
            Self::Numbers => quote!(farcall_writer.numbers(#place);),
            Self::Value => quote!(farcall_writer.value(#place);),
        }
    }

    /// Reads an owned value.
    pub(crate) fn read(self) -> TokenStream {
        match self {
            Self::Unit => quote!(()),
            Self::Number => quote!(farcall_reader.number()?),
            Self::Text => quote!(::std::string::String::from(farcall_reader.text()?)),
            Self::Numbers => quote!(farcall_reader.numbers()?.into_owned()),
            Self::Value => quote!(farcall_reader.value()?),
        }
    }
}

/// Refuses references in results: what they lead to is memory of the executor.
fn refuse_references(kind: &Type) -> Result<()> {
    let refused = "a reference in a result leads to memory of the executor; return an owned value, such as `String` or `Vec`";
    match bare(kind) {
        Type::Reference(_) => Err(Error::new_spanned(kind, refused)),
        Type::Tuple(tuple) => tuple.elems.iter().try_for_each(refuse_references),
        Type::Array(array) => refuse_references(&array.elem),
        Type::Path(path) => path.path.segments.iter().try_for_each(|segment| {
            let PathArguments::AngleBracketed(arguments) = &segment.arguments else {
                return Ok(());
            };
            arguments.args.iter().try_for_each(|argument| match argument {
                GenericArgument::Type(kind) => refuse_references(kind),
                _ => Ok(()),
            })
        }),
        _ => Ok(()),
    }
}

/// A type without brackets, and without the group that it is in where a macro has passed it on.
pub(crate) fn bare(kind: &Type) -> &Type {
    match kind {
        Type::Group(inner) => bare(&inner.elem),
        Type::Paren(inner) => bare(&inner.elem),
        other => other,
    }
}

fn is_number(kind: &Type) -> bool {
    match bare(kind) {
        Type::Path(TypePath { qself: None, path }) => {
            path.get_ident().is_some_and(|name| NUMBERS.iter().any(|number| name == number))
        }
        _ => false,
    }
}

/// The types between the brackets of a type with this last name.
fn generic<'a>(kind: &'a Type, name: &str) -> Option<Vec<&'a Type>> {
    let Type::Path(TypePath { qself: None, path }) = bare(kind) else { return None };
    let last = path.segments.last().filter(|last| last.ident == name)?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else {
        return Some(Vec::new());
    };
    let types = arguments.args.iter().filter_map(|argument| match argument {
        GenericArgument::Type(kind) => Some(kind),
        _ => None,
    });
    Some(types.collect())
}
