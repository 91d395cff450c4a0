//! Functions of a dylib by their types, compared with the debug information of their objects.

use std::sync::Arc;

use super::dylib::Dylib;
use super::typed_objects::TypedObjects;
use crate::error::{Error, ErrorKind, Result};
use crate::types::Signature;

impl Dylib {
    /// Keeps the objects of links from now on, with which [`compare`](Dylib::compare) compares types.
    pub(crate) fn check_types(&self) {
        self.keep_types(Arc::default());
    }

    /// Keeps the objects of links from now on with these, unless the dylib keeps some already.
    pub(super) fn keep_types(&self, objects: Arc<TypedObjects>) {
        if self.typed_objects.set(Arc::clone(&objects)).is_ok() {
            self.add_plugin(objects);
        }
    }

    /// Compares a type with that of the object.
    ///
    /// # Errors
    ///
    /// When they differ.
    pub(in crate::controller) fn compare(&self, name: &str, signature: &Signature) -> Result<()> {
        let Some(objects) = self.typed_objects.get() else { return Ok(()) };
        match objects.prototype(name) {
            Some((object, prototype)) if !prototype.is_like(signature) => {
                let asked = signature.clone().named(name);
                let message = format!("{name} is `{prototype}` in {object}, not `{asked}`");
                Err(Error::new(ErrorKind::TypeMismatch, message))
            }
            _ => Ok(()),
        }
    }
}
