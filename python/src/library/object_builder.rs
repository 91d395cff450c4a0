//! Objects of machine code that a program of Python has made itself.
//!
//! Invariant: what the package's classes say of a part is checked here or by farcall, before an object is made.

use std::borrow::Cow;

use farcall::link::{CalleeSaved, Frame, ObjectBuilder, ObjectPart};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::error;

/// A function or data, as the package's `ObjectPart` describes it.
#[derive(FromPyObject)]
pub(crate) struct Part {
    #[pyo3(attribute("_kind"))]
    kind: String,
    #[pyo3(attribute("_name"))]
    name: String,
    #[pyo3(attribute("_content"))]
    content: Vec<u8>,
    /// The number of bytes of data that is zero.
    #[pyo3(attribute("_zeroes"))]
    zeroes: u64,
    #[pyo3(attribute("_alignment"))]
    alignment: Option<u64>,
    #[pyo3(attribute("_is_local"))]
    is_local: bool,
    #[pyo3(attribute("_fields"))]
    fields: Vec<Field>,
    #[pyo3(attribute("_frame"))]
    frame: Option<Steps>,
}

/// The kind of a field, its offset, the symbol and what is added to it.
type Field = (String, u64, String, i64);

/// The instructions that change a frame.
#[derive(FromPyObject)]
struct Steps {
    #[pyo3(attribute("_steps"))]
    steps: Vec<Step>,
}

/// The kind of an instruction, the offset behind it, and the register and the number of kinds that have them.
type Step = (String, u32, String, u32);

/// The bytes of an object with these parts.
#[pyfunction]
pub(crate) fn build_object(
    py: Python<'_>,
    name: String,
    parts: Vec<Part>,
) -> PyResult<Cow<'static, [u8]>> {
    let mut object = ObjectBuilder::new(name);
    for part in parts {
        part.add(&mut object)?;
    }
    let built = error::detached(py, || object.build())?;
    Ok(Cow::Owned(built.bytes().to_vec()))
}

impl Part {
    fn add(self, object: &mut ObjectBuilder) -> PyResult<()> {
        let part = match self.kind.as_str() {
            "function" => object.function(self.name, self.content),
            "data" => object.data(self.name, self.content),
            "constant" => object.constant(self.name, self.content),
            "zeroes" => object.zeroes(self.name, self.zeroes),
            kind => return Err(PyValueError::new_err(format!("a part of the kind {kind}"))),
        };
        if let Some(bytes) = self.alignment {
            part.align(bytes);
        }
        if self.is_local {
            part.local();
        }
        for field in &self.fields {
            refer(part, field)?;
        }
        if let Some(frame) = self.frame {
            part.frame(frame.steps.iter().try_fold(Frame::new(), stepped)?);
        }
        Ok(())
    }
}

fn refer(part: &mut ObjectPart, (kind, offset, symbol, addend): &Field) -> PyResult<()> {
    match kind.as_str() {
        "call" => part.call(*offset, symbol),
        "distance" => part.distance(*offset, symbol, *addend),
        "got_entry" => part.got_entry(*offset, symbol),
        "address" => part.address(*offset, symbol, *addend),
        kind => return Err(PyValueError::new_err(format!("a field of the kind {kind}"))),
    };
    Ok(())
}

fn stepped(frame: Frame, (kind, behind, register, number): &Step) -> PyResult<Frame> {
    let (behind, number) = (*behind, *number);
    Ok(match kind.as_str() {
        "push" => frame.push(behind, saved(register)?),
        "pop" => frame.pop(behind, saved(register)?),
        "grow" => frame.grow(behind, number),
        "shrink" => frame.shrink(behind, number),
        "frame_pointer" => frame.frame_pointer(behind),
        "leave" => frame.leave(behind),
        "save" => frame.save(behind, saved(register)?, number),
        "resume" => frame.resume(behind, number),
        kind => return Err(PyValueError::new_err(format!("a frame step of the kind {kind}"))),
    })
}

fn saved(register: &str) -> PyResult<CalleeSaved> {
    Ok(match register {
        "rbx" => CalleeSaved::Rbx,
        "rbp" => CalleeSaved::Rbp,
        "r12" => CalleeSaved::R12,
        "r13" => CalleeSaved::R13,
        "r14" => CalleeSaved::R14,
        "r15" => CalleeSaved::R15,
        other => {
            let known = "rbx, rbp and r12 to r15 are";
            return Err(PyValueError::new_err(format!(
                "{other:?} is no register of a caller: {known}"
            )));
        }
    })
}
