//! Functions of a dylib by their types, compared with the debug information of their objects.

use std::sync::Arc;

use super::dylib::Dylib;
use super::typed_objects::TypedObjects;
use crate::controller::calls::{Function, StaticType, function_type::Placed};
use crate::error::{Error, ErrorKind, Result};
use crate::types::Signature;

impl Dylib {
    /// Makes [`function`](Dylib::function) and [`function_with`](Dylib::function_with) compare types with the debug information of the
    /// objects that are linked from now on. The files of objects that define functions stay in the memory of this process until the
    /// dylib is [cleared](Dylib::clear). The debug information is read at a look-up, not at a link.
    ///
    /// # Examples
    ///
    /// ```standalone_crate
    /// # farcall::executor::run_if_spawned();
    /// # let controller = farcall::controller::ExecutorBuilder::new().this_program().start()?;
    #[doc = include_str!("../../docs/compile.txt")]
    /// let dylib = controller.create_dylib("main");
    /// dylib.check_types();
    /// // With `cc -g`, the type `extern "C" fn() -> f64` would be refused.
    /// dylib.add_object(&compile("int answer(void) { return 42; }")?)?;
    /// let answer = dylib.function::<extern "C" fn() -> i32>("answer")?;
    /// assert_eq!(answer.call()?, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check_types(&self) {
        self.keep_types(Arc::default());
    }

    /// Keeps the objects of links from now on with these, unless the dylib keeps some already.
    pub(super) fn keep_types(&self, objects: Arc<TypedObjects>) {
        if self.typed_objects.set(Arc::clone(&objects)).is_ok() {
            self.add_plugin(objects);
        }
    }

    /// The function with this name, by its type in Rust. Links the added objects first, as [`lookup`](Dylib::lookup).
    ///
    /// # Errors
    ///
    /// As [`lookup`](Dylib::lookup). After [`check_types`](Dylib::check_types), an error of the kind
    /// [`TypeMismatch`](ErrorKind::TypeMismatch) that shows both prototypes, when the object's debug information says that the function
    /// has another type.
    pub fn function<F: StaticType>(&self, name: &str) -> Result<Function<F>> {
        let address = self.lookup(name)?;
        if let Some(signature) = F::signature() {
            self.compare(name, &signature)?;
        }
        Ok(Function::new(self.session(), address, ()))
    }

    /// The function with this name, by its type at run time. Links the added objects first, as [`lookup`](Dylib::lookup).
    ///
    /// # Errors
    ///
    /// As [`function`](Dylib::function), and as [`Controller::function_with`](crate::controller::Controller::function_with).
    pub fn function_with(&self, name: &str, signature: &Signature) -> Result<Function<Signature>> {
        let address = self.lookup(name)?;
        self.compare(name, signature)?;
        Ok(Function::new(self.session(), address, Placed::new(signature)?))
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
