//! The objects of links whose functions are looked up by their types.

use crate::controller::linker::finalizing::Finalizing;
use crate::controller::linker::object_plugin::ObjectPlugin;
use crate::error::{Error, ErrorKind, Result};
use crate::link::PlacedObject;
use crate::sync::Mutex;
use crate::types::Signature;

/// The objects of links whose functions are looked up by their types.
#[derive(Debug, Default)]
pub(crate) struct TypedObjects(Mutex<Vec<PlacedObject>>);

impl TypedObjects {
    /// Forgets all objects.
    pub(crate) fn clear(&self) {
        self.0.lock().clear();
    }

    /// The same objects, to which others can be added.
    pub(super) fn copied(&self) -> Self {
        Self(Mutex::new(self.0.lock().clone()))
    }

    /// Compares a type with that of the object.
    ///
    /// # Errors
    ///
    /// When they differ.
    pub(super) fn compare(&self, name: &str, signature: &Signature) -> Result<()> {
        match self.prototype(name) {
            Some((object, prototype)) if !prototype.is_like(signature) => {
                let asked = signature.clone().named(name);
                let message = format!("{name} is `{prototype}` in {object}, not `{asked}`");
                Err(Error::new(ErrorKind::TypeMismatch, message))
            }
            _ => Ok(()),
        }
    }

    /// The type of a function, and the name of the object that defines it.
    fn prototype(&self, function: &str) -> Option<(String, Signature)> {
        let defines = |one: &&PlacedObject| one.object().definitions().any(|name| name == function);
        let found: Vec<PlacedObject> = self.0.lock().iter().filter(defines).cloned().collect();
        let prototype =
            |one: &PlacedObject| Some((one.object().name().to_owned(), one.prototype(function)?));
        found.iter().find_map(prototype)
    }
}

impl ObjectPlugin for TypedObjects {
    fn finalizing(&self, link: &mut Finalizing<'_>) -> Result<()> {
        let defining = link.objects().iter().filter(|one| one.is_there());
        self.0.lock().extend(defining.cloned());
        Ok(())
    }
}
