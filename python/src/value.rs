//! Numbers and structures of Python as C values, and back.

use farcall::ExecutorAddr;
use farcall::types::{Type, Value};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};

/// The value of this type that an object is.
///
/// # Errors
///
/// The exception of Python's own conversion: `TypeError` for another kind of object, `OverflowError` for a number that does not fit.
pub(crate) fn from_python(kind: &Type, object: &Bound<'_, PyAny>) -> PyResult<Value> {
    Ok(match kind {
        Type::F64 => Value::F64(object.extract()?),
        Type::I64 => Value::I64(object.extract()?),
        Type::I32 => Value::I32(object.extract()?),
        Type::U64 => Value::U64(object.extract()?),
        Type::U32 => Value::U32(object.extract()?),
        Type::F32 => Value::F32(object.extract()?),
        Type::I8 => Value::I8(object.extract()?),
        Type::U8 => Value::U8(object.extract()?),
        Type::I16 => Value::I16(object.extract()?),
        Type::U16 => Value::U16(object.extract()?),
        Type::Bool => Value::Bool(object.extract()?),
        Type::Pointer if object.is_none() => Value::Pointer(ExecutorAddr::NULL),
        Type::Pointer => Value::Pointer(ExecutorAddr::new(object.extract()?)),
        Type::V128 => Value::V128(object.extract()?),
        Type::Struct(one) => {
            if let Ok(bytes) = object.cast::<PyBytes>() {
                return Ok(Value::Bytes(bytes.as_bytes().to_vec()));
            }
            let fields = one.fields();
            if let Ok(by_name) = object.cast::<PyDict>() {
                let field = |name: &str| {
                    let missing = || PyTypeError::new_err(format!("no field {name} of {kind}"));
                    by_name.get_item(name)?.ok_or_else(missing)
                };
                let of = |one: &farcall::types::Field| from_python(&one.kind, &field(&one.name)?);
                return Ok(Value::Fields(fields.iter().map(of).collect::<PyResult<_>>()?));
            }
            let parts = parts(kind, object, fields.len())?;
            let of = |(part, one): (&Bound<'_, PyAny>, &farcall::types::Field)| {
                from_python(&one.kind, part)
            };
            Value::Fields(parts.iter().zip(fields).map(of).collect::<PyResult<_>>()?)
        }
        Type::Array(element, count) => {
            let parts = parts(kind, object, *count)?;
            let of = |part| from_python(element, part);
            Value::Fields(parts.iter().map(of).collect::<PyResult<_>>()?)
        }
        other => return Err(PyTypeError::new_err(format!("no object is {other}"))),
    })
}

/// The parts of a tuple or list.
fn parts<'py>(
    kind: &Type,
    object: &Bound<'py, PyAny>,
    count: usize,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let is_sequence = object.is_instance_of::<PyTuple>() || object.is_instance_of::<PyList>();
    let parts =
        if is_sequence { object.try_iter()?.collect::<PyResult<Vec<_>>>()? } else { Vec::new() };
    if is_sequence && parts.len() == count {
        return Ok(parts);
    }
    Err(PyTypeError::new_err(format!("{kind} is a tuple of {count}, not {}", object.repr()?)))
}

/// The object that a result of this type is. A structure is a tuple of its fields.
///
/// # Errors
///
/// When the interpreter has no memory.
pub(crate) fn to_python(py: Python<'_>, kind: Option<&Type>, value: Value) -> PyResult<Py<PyAny>> {
    Ok(match (value, kind) {
        (Value::F64(value), _) => value.into_pyobject(py)?.into_any().unbind(),
        (Value::Void, _) => py.None(),
        (Value::Bool(value), _) => value.into_pyobject(py)?.to_owned().into_any().unbind(),
        (Value::I8(value), _) => value.into_pyobject(py)?.into_any().unbind(),
        (Value::U8(value), _) => value.into_pyobject(py)?.into_any().unbind(),
        (Value::I16(value), _) => value.into_pyobject(py)?.into_any().unbind(),
        (Value::U16(value), _) => value.into_pyobject(py)?.into_any().unbind(),
        (Value::I32(value), _) => value.into_pyobject(py)?.into_any().unbind(),
        (Value::U32(value), _) => value.into_pyobject(py)?.into_any().unbind(),
        (Value::I64(value), _) => value.into_pyobject(py)?.into_any().unbind(),
        (Value::U64(value), _) => value.into_pyobject(py)?.into_any().unbind(),
        (Value::F32(value), _) => value.into_pyobject(py)?.into_any().unbind(),
        (Value::Pointer(value), _) => value.get().into_pyobject(py)?.into_any().unbind(),
        (Value::V128(bytes), _) => PyBytes::new(py, &bytes).into_any().unbind(),
        (value, Some(kind @ (Type::Struct(_) | Type::Array(..)))) => {
            let fields = value.into_fields(kind);
            let fields = fields.map_err(|error| crate::error::raise(py, &error))?;
            let kinds: Vec<&Type> = match kind {
                Type::Struct(one) => one.fields().iter().map(|field| &field.kind).collect(),
                Type::Array(element, count) => vec![element; *count],
                _ => Vec::new(),
            };
            let parts = fields.into_iter().zip(kinds);
            let parts = parts.map(|(value, kind)| to_python(py, Some(kind), value));
            PyTuple::new(py, parts.collect::<PyResult<Vec<_>>>()?)?.into_any().unbind()
        }
        (other, _) => return Err(PyTypeError::new_err(format!("a result {other}"))),
    })
}
