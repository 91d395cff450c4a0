//! Arrays, compared with what a pointer leads to.
//!
//! Invariant: an array is taken if its elements are what the function reads, or are bytes. A size that fits by chance is no reason.

use farcall::types::{Pointee, Struct, Target, Type};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyType};

/// An array that fits a pointer: where its bytes lie in this process.
pub(crate) struct Matched {
    pub(crate) address: u64,
    pub(crate) bytes: u64,
}

/// Looks at an array, and compares it with what a pointer leads to.
///
/// # Errors
///
/// `TypeError` for other elements, or a mask; `ValueError` when it is not contiguous, or is read-only and the function may write.
pub(crate) fn compare(
    pointee: &Pointee,
    object: &Bound<'_, PyAny>,
    interface: &Bound<'_, PyDict>,
) -> PyResult<Matched> {
    let item = |name: &str| -> PyResult<Bound<'_, PyAny>> {
        let missing = || PyTypeError::new_err(format!("an array interface without {name}"));
        interface.get_item(name)?.ok_or_else(missing)
    };
    let name: String = item("typestr")?.extract()?;
    let shape: Vec<u64> = item("shape")?.extract()?;
    let (address, is_read_only): (u64, bool) = item("data")?.extract()?;
    check_mask(object, interface)?;
    if shape.is_empty() {
        check_scalar(object)?;
    }
    let bytes =
        shape.iter().fold(item_bytes(&name)?, |bytes, extent| bytes.saturating_mul(*extent));
    check_elements(&pointee.target, &name, &shape, bytes, object, interface)?;
    if interface.get_item("strides")?.is_some_and(|strides| !strides.is_none()) {
        return Err(PyValueError::new_err(
            "the array is not contiguous: numpy.ascontiguousarray copies it",
        ));
    }
    if is_read_only && !pointee.is_const {
        return Err(PyValueError::new_err("the array is read-only, and the function may write it"));
    }
    Ok(Matched { address, bytes })
}

/// Compares the number of bytes with the size of what a pointer leads to: for texts and bytes, which have no type.
///
/// # Errors
///
/// `ValueError` when there is a remainder.
pub(crate) fn check_bytes(target: &Target, bytes: u64) -> PyResult<()> {
    let Target::Value(kind) = target else { return Ok(()) };
    let whole = kind.bytes() as u64;
    if whole <= 1 || bytes.is_multiple_of(whole) {
        return Ok(());
    }
    Err(PyValueError::new_err(format!(
        "{bytes} bytes are no whole number of {kind}, of {whole} bytes each"
    )))
}

/// Whether a text may stand where a pointer leads: its bytes are elements of one byte.
pub(crate) fn takes_texts(target: &Target) -> bool {
    matches!(target, Target::Void | Target::Character | Target::Value(Type::I8 | Type::U8))
}

/// NumPy's name of the numbers that a pointer leads to, also of those in arrays.
pub(crate) fn element_name(target: &Target) -> Option<&'static str> {
    match target {
        Target::Character => numpy_name(&Type::I8),
        Target::Value(kind) => numpy_name(element_of(kind).0),
        _ => None,
    }
}

/// NumPy's name of the elements of a column that a pointer leads to.
pub(crate) fn column_name(target: &Target) -> Option<&'static str> {
    match target {
        Target::Value(Type::Array(..)) => None,
        target => element_name(target),
    }
}

/// NumPy's name of a number's type.
pub(crate) fn numpy_name(kind: &Type) -> Option<&'static str> {
    Some(match kind {
        Type::F64 => "<f8",
        Type::F32 => "<f4",
        Type::I8 => "|i1",
        Type::U8 => "|u1",
        Type::I16 => "<i2",
        Type::U16 => "<u2",
        Type::I32 => "<i4",
        Type::U32 => "<u4",
        Type::I64 => "<i8",
        Type::U64 | Type::Pointer => "<u8",
        Type::Bool => "|b1",
        _ => return None,
    })
}

/// The target of a pointer, for messages.
pub(crate) fn describe(target: &Target) -> String {
    match target {
        Target::Void => "void".to_owned(),
        Target::Character => "char".to_owned(),
        Target::Value(kind) => kind.to_string(),
        Target::Undefined(name) => format!("struct {name}"),
        _ => "a function".to_owned(),
    }
}

fn check_elements(
    target: &Target,
    name: &str,
    shape: &[u64],
    bytes: u64,
    object: &Bound<'_, PyAny>,
    interface: &Bound<'_, PyDict>,
) -> PyResult<()> {
    let is_right = match target {
        Target::Character => matches!(name, "|i1" | "|u1") || name.starts_with("|S"),
        // Nothing is known of them but bytes.
        Target::Undefined(of) => {
            let is_raw = name == "|u1" || is_void(name) && fields_of(object, interface)?.is_none();
            if !is_raw {
                let message = format!(
                    "an array of {name}, and struct {of} is not defined, so the two cannot be compared: define it by \
                     Executor.declare, or pass bytes (array.view(\"u1\"))"
                );
                return Err(PyTypeError::new_err(message));
            }
            true
        }
        Target::Value(kind) => {
            let (element, inner) = element_of(kind);
            check_shape(kind, &inner, shape)?;
            match element {
                _ if name == "|u1" && !matches!(element, Type::U8) => {
                    // The bytes of several.
                    matches!(element, Type::Struct(_) | Type::V128)
                        && check_bytes(target, bytes).is_ok()
                }
                Type::Struct(one) if is_void(name) => {
                    if let Some(dtype) = fields_of(object, interface)? {
                        compare_record(one, &dtype)?;
                    }
                    item_bytes(name)? == one.bytes() as u64
                }
                Type::V128 => is_vector(name) && check_bytes(target, bytes).is_ok(),
                element => is_number(element, name),
            }
        }
        _ => true,
    };
    if is_right {
        return Ok(());
    }
    let target = describe(target);
    Err(PyTypeError::new_err(format!("an array of {name}, where the function takes {target}")))
}

/// Whether NumPy's name of a type means this number. A time of NumPy is its count of units.
fn is_number(kind: &Type, name: &str) -> bool {
    let is_time = matches!(kind, Type::I64) && (name.starts_with("<M8") || name.starts_with("<m8"));
    is_time || numpy_name(kind) == Some(name)
}

/// Whether NumPy's name of a type is one of which vectors of integers are made.
fn is_vector(name: &str) -> bool {
    let is_little = name.starts_with(['<', '|']);
    name == "|V16" || is_little && matches!(name.get(1..2), Some("i" | "u"))
}

fn is_void(name: &str) -> bool {
    name.starts_with("|V")
}

/// The elements of an array of arrays, and the extents around them.
fn element_of(mut kind: &Type) -> (&Type, Vec<u64>) {
    let mut extents = Vec::new();
    while let Type::Array(element, count) = kind {
        extents.push(*count as u64);
        kind = element;
    }
    (kind, extents)
}

/// An array of several dimensions ends with the dimensions of the type; an array of one has whole rows.
fn check_shape(kind: &Type, inner: &[u64], shape: &[u64]) -> PyResult<()> {
    let row: u64 = inner.iter().product();
    if row == 0 || inner.is_empty() {
        return Ok(());
    }
    let is_right = match shape {
        [items] => items.is_multiple_of(row),
        shape => shape.ends_with(inner),
    };
    if is_right {
        return Ok(());
    }
    let last: Vec<String> = inner.iter().map(u64::to_string).collect();
    Err(PyTypeError::new_err(format!(
        "an array of shape {shape:?}, where the function takes rows of {kind}: array.reshape(-1, {}) says what the rows are",
        last.join(", ")
    )))
}

/// The `dtype` of an array of records, if it has fields.
fn fields_of<'py>(
    object: &Bound<'py, PyAny>,
    interface: &Bound<'py, PyDict>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let dtype = match (object.getattr_opt("dtype")?, interface.get_item("descr")?) {
        (Some(dtype), _) => dtype,
        (None, Some(fields)) => object.py().import("numpy")?.call_method1("dtype", (fields,))?,
        (None, None) => return Ok(None),
    };
    Ok(if dtype.getattr("fields")?.is_none() { None } else { Some(dtype) })
}

/// Compares the fields of records with the fields of a structure: names, places and types. Names that NumPy has given count for nothing.
fn compare_record(one: &Struct, dtype: &Bound<'_, PyAny>) -> PyResult<()> {
    let other = |what: String| {
        let (kind, due) = (dtype.getattr("str"), Type::from(one.clone()));
        let kind = kind.map_or_else(|_| String::new(), |kind| kind.to_string());
        PyTypeError::new_err(format!("the records of the array, {kind}, are no {due}: {what}"))
    };
    let names: Vec<String> = dtype.getattr("names")?.extract()?;
    let fields = dtype.getattr("fields")?;
    let is_unnamed = names.iter().enumerate().all(|(at, name)| *name == format!("f{at}"));
    let mut due = one.fields().iter();
    for name in &names {
        let field = fields.get_item(name)?;
        let (kind, offset) = (field.get_item(0)?, field.get_item(1)?.extract::<usize>()?);
        let is_padding = is_void(&kind.getattr("str")?.extract::<String>()?)
            && kind.getattr("fields")?.is_none()
            && !one.fields().iter().any(|field| field.offset == offset);
        if is_padding {
            continue;
        }
        let Some(of) = due.next() else { return Err(other(format!("it has no field {name}"))) };
        if offset != of.offset || !(is_unnamed || *name == of.name) {
            return Err(other(format!(
                "{name} at byte {offset}, where the function has {} at byte {}",
                of.name, of.offset
            )));
        }
        compare_field(&of.kind, &kind)
            .map_err(|raised| other(format!("field {name}: {}", raised.value(dtype.py()))))?;
    }
    match due.next() {
        Some(left) => Err(other(format!("the records have no field {}", left.name))),
        None => Ok(()),
    }
}

/// Compares the type of a record's field with the type of a structure's field.
fn compare_field(kind: &Type, dtype: &Bound<'_, PyAny>) -> PyResult<()> {
    let (element, inner) = element_of(kind);
    let (base, shape) = match dtype.getattr("subdtype")? {
        one if one.is_none() => (dtype.clone(), Vec::new()),
        several => (several.get_item(0)?, several.get_item(1)?.extract::<Vec<u64>>()?),
    };
    let name: String = base.getattr("str")?.extract()?;
    let is_right = match element {
        // A text of a fixed size.
        Type::I8 if inner.len() == 1 && shape.is_empty() => name == format!("|S{}", inner[0]),
        _ if shape != inner => false,
        Type::Struct(one) if !base.getattr("fields")?.is_none() => {
            compare_record(one, &base)?;
            base.getattr("itemsize")?.extract::<usize>()? == one.bytes()
        }
        Type::V128 => name == "|V16",
        number => is_number(number, &name),
    };
    if is_right {
        return Ok(());
    }
    Err(PyTypeError::new_err(format!("{dtype} instead of {kind}")))
}

/// Refuses an array some of whose elements are masked: the function would read them.
fn check_mask(object: &Bound<'_, PyAny>, interface: &Bound<'_, PyDict>) -> PyResult<()> {
    static ARRAY: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let py = object.py();
    if object.get_type().is(ARRAY.import(py, "numpy", "ndarray")?) {
        return Ok(());
    }
    let has_mask = interface.get_item("mask")?.is_some_and(|mask| !mask.is_none());
    let is_masked = || py.import("numpy.ma")?.call_method1("is_masked", (object,))?.is_truthy();
    if has_mask || object.getattr_opt("mask")?.is_some() && is_masked()? {
        return Err(PyTypeError::new_err(
            "the array has masked elements, which the function would read: array.filled(value) replaces them",
        ));
    }
    Ok(())
}

/// Refuses a number of NumPy, which may be meant as an address or as an array of one element.
fn check_scalar(object: &Bound<'_, PyAny>) -> PyResult<()> {
    let numpy = object.py().import("numpy")?;
    let is_scalar = object.is_instance(&numpy.getattr("generic")?)?;
    if is_scalar && !object.is_instance(&numpy.getattr("void")?)? {
        return Err(PyTypeError::new_err(
            "a number of NumPy is no array: numpy.array([x]) is one, and int(x) is an address",
        ));
    }
    Ok(())
}

/// The size of an element by NumPy's name of its type.
fn item_bytes(name: &str) -> PyResult<u64> {
    // A time has its unit behind the size: `<M8[ns]`.
    let digits = name.get(2..).and_then(|digits| digits.split('[').next());
    let digits = digits.and_then(|digits| digits.parse::<u64>().ok());
    let one = || PyTypeError::new_err(format!("an array of {name}"));
    // NumPy counts the letters of its Unicode strings, of four bytes each.
    let bytes = digits.map(|digits| if name.get(1..2) == Some("U") { digits * 4 } else { digits });
    bytes.ok_or_else(one)
}
