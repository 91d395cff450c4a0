//! Numbers and structures of Python as C values, and back.

use farcall::ExecutorAddr;
use farcall::types::{Field, Struct, Type, Value};
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{
    PyBytes, PyBytesMethods, PyDict, PyFloat, PyInt, PyList, PySequence, PyString, PyTuple,
};

/// The value of this type that an object is.
///
/// # Errors
///
/// The exception of Python's own conversion: `TypeError` for another kind of object, `OverflowError` for a number that does not fit.
pub(crate) fn from_python(kind: &Type, object: &Bound<'_, PyAny>) -> PyResult<Value> {
    Ok(match kind {
        Type::F64 => Value::F64(number(object)?),
        Type::I64 => Value::I64(object.extract()?),
        Type::I32 => Value::I32(object.extract()?),
        Type::U64 => Value::U64(object.extract()?),
        Type::U32 => Value::U32(object.extract()?),
        Type::F32 => Value::F32(single(object)?),
        // A character of C, as in ctypes.
        Type::I8 => match one_byte(object) {
            Some(byte) => Value::I8(byte.cast_signed()),
            None => Value::I8(object.extract()?),
        },
        Type::U8 => match one_byte(object) {
            Some(byte) => Value::U8(byte),
            None => Value::U8(object.extract()?),
        },
        Type::I16 => Value::I16(object.extract()?),
        Type::U16 => Value::U16(object.extract()?),
        Type::Bool => Value::Bool(object.extract()?),
        Type::Pointer if object.is_none() => Value::Pointer(ExecutorAddr::NULL),
        Type::Pointer => Value::Pointer(ExecutorAddr::new(object.extract()?)),
        Type::V128 => Value::V128(object.extract()?),
        Type::Struct(one) => structure(kind, one, object)?,
        Type::Array(element, count) => {
            let bytes = object.cast::<PyBytes>().ok();
            let bytes = bytes.filter(|_| matches!(**element, Type::I8 | Type::U8));
            if let Some(bytes) = bytes.map(PyBytesMethods::as_bytes) {
                if bytes.len() > *count {
                    let message = format!("{} bytes are too long for {kind}", bytes.len());
                    return Err(PyValueError::new_err(message));
                }
                let mut whole = bytes.to_vec();
                whole.resize(*count, 0);
                return Ok(Value::Bytes(whole));
            }
            let parts = parts(kind, object, *count)?;
            let of = |part| from_python(element, part);
            Value::Fields(parts.iter().map(of).collect::<PyResult<_>>()?)
        }
        other => return Err(PyTypeError::new_err(format!("no object is {other}"))),
    })
}

/// A structure: its bytes, its fields by name, or all of them in order.
fn structure(kind: &Type, one: &Struct, object: &Bound<'_, PyAny>) -> PyResult<Value> {
    if let Ok(bytes) = object.cast::<PyBytes>() {
        return Ok(Value::Bytes(bytes.as_bytes().to_vec()));
    }
    let fields = one.fields();
    let is_sequence = object.is_instance_of::<PyTuple>() || object.is_instance_of::<PyList>();
    if is_sequence {
        let parts = parts(kind, object, fields.len())?;
        let of = |(part, one): (&Bound<'_, PyAny>, &Field)| from_python(&one.kind, part);
        return Ok(Value::Fields(parts.iter().zip(fields).map(of).collect::<PyResult<_>>()?));
    }
    let by_name = match object.cast::<PyDict>() {
        Ok(fields) => fields.clone(),
        // Structures of ctypes, and records of NumPy.
        Err(_) => {
            let fields = object.py().import("farcall.columns")?.getattr("fields")?;
            let found = fields.call1((object,))?;
            let no_fields = |_| {
                let message = format!(
                    "{kind} is a tuple, a dictionary, bytes, a structure of ctypes or a record of NumPy, not {}",
                    object.get_type()
                );
                PyTypeError::new_err(message)
            };
            found.cast_into::<PyDict>().map_err(no_fields)?
        }
    };
    let mut values = Vec::with_capacity(fields.len());
    for field in fields {
        let missing = || PyTypeError::new_err(format!("no field {} of {kind}", field.name));
        let part = by_name.get_item(&field.name)?.ok_or_else(missing)?;
        values.push(from_python(&field.kind, &part)?);
    }
    if by_name.len() > fields.len() {
        let is_known = |name: &Bound<'_, PyAny>| {
            fields.iter().any(|field| name.eq(field.name.as_str()).unwrap_or(false))
        };
        let other = by_name.keys().iter().find(|name| !is_known(name));
        let other = other.map_or_else(String::new, |name| name.to_string());
        return Err(PyTypeError::new_err(format!("{kind} has no field {other}")));
    }
    Ok(Value::Fields(values))
}

/// A number as `double`.
fn number(object: &Bound<'_, PyAny>) -> PyResult<f64> {
    if !object.is_exact_instance_of::<PyFloat>() && !object.is_exact_instance_of::<PyInt>() {
        // NumPy's conversion drops an imaginary part and a mask.
        let has = |name: &str| -> PyResult<bool> {
            object.getattr_opt(name)?.map_or(Ok(false), |part| part.is_truthy())
        };
        if !object.is_instance_of::<PyString>() && (has("imag")? || has("mask")?) {
            return Err(PyTypeError::new_err(format!("{} is no real number", object.repr()?)));
        }
    }
    object.extract()
}

/// A number as `float`. It is rounded, and never made infinite.
fn single(object: &Bound<'_, PyAny>) -> PyResult<f32> {
    let wide = number(object)?;
    #[expect(clippy::cast_possible_truncation, reason = "it is rounded")]
    let single = wide as f32;
    if single.is_infinite() && wide.is_finite() {
        return Err(PyOverflowError::new_err(format!("{wide:e} is too large for float")));
    }
    Ok(single)
}

/// The byte of a text of one byte.
fn one_byte(object: &Bound<'_, PyAny>) -> Option<u8> {
    match object.cast::<PyBytes>().ok()?.as_bytes() {
        [byte] => Some(*byte),
        _ => None,
    }
}

/// The parts of a tuple, a list, or an array of ctypes or NumPy.
fn parts<'py>(
    kind: &Type,
    object: &Bound<'py, PyAny>,
    count: usize,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let is_text = object.is_instance_of::<PyString>() || object.is_instance_of::<PyBytes>();
    let parts = match object.cast::<PySequence>() {
        Ok(_) if !is_text => object.try_iter()?.collect::<PyResult<Vec<_>>>()?,
        _ if object.hasattr("_length_")? || object.hasattr("dtype")? => {
            object.try_iter()?.collect::<PyResult<Vec<_>>>()?
        }
        _ => Vec::new(),
    };
    if parts.len() == count {
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
