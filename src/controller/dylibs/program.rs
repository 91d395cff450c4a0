//! Programs: initializers, `main`, and runs again and again with the data that the program was linked with.

use super::dylib::Dylib;
use crate::call::contract::{ProgramInitialize, ProgramMain, ProgramRun, ProgramStart};
use crate::controller::session::exit_status;
use crate::error::{Error, Result};
use crate::sps::Bytes;

impl Dylib {
    /// Runs the initializers of the links whose initializers have not run.
    ///
    /// # Errors
    ///
    /// As [`Library::initialize`](crate::controller::Library::initialize).
    pub(crate) fn initialize(&self) -> Result<()> {
        if self.has_pending() {
            self.link()?;
        }
        let handle = self.lock().handle;
        self.session().run::<ProgramInitialize>(&(handle, Vec::new()))
    }

    /// Runs the initializers that have not run, then `main` with these arguments. Returns the result of `main`.
    ///
    /// # Errors
    ///
    /// As [`Library::run_main`](crate::controller::Library::run_main).
    pub(crate) fn run_main<A: AsRef<[u8]>>(
        &self,
        args: impl IntoIterator<Item = A>,
    ) -> Result<i32> {
        let main = self.lookup("main")?;
        let handle = self.lock().handle;
        let args = args.into_iter().map(|arg| Bytes(arg.as_ref().to_vec())).collect();
        self.session().run::<ProgramMain>(&(handle, main, args))
    }

    /// Starts a program at code of its own instead of `main`, and returns its exit status.
    ///
    /// # Errors
    ///
    /// As [`Library::run_start`](crate::controller::Library::run_start).
    pub(crate) fn run_start<A: AsRef<[u8]>>(
        &self,
        entry: &str,
        args: impl IntoIterator<Item = A>,
    ) -> Result<i32> {
        let start = self.lookup(entry)?;
        let args = args.into_iter().map(|arg| Bytes(arg.as_ref().to_vec())).collect();
        exit_status(self.session().run::<ProgramStart>(&(start, args)))
    }

    /// Makes links from now on keep a copy of their initial data.
    pub(crate) fn keep_initial_data(&self) {
        self.lock().keeps_data = true;
    }

    /// Runs the program with fresh data ([`Library::run_fresh`](crate::controller::Library::run_fresh)).
    ///
    /// # Errors
    ///
    /// As there.
    pub(crate) fn run_fresh<A: AsRef<[u8]>>(
        &self,
        args: impl IntoIterator<Item = A>,
    ) -> Result<i32> {
        let main = self.lookup("main")?;
        let handle = {
            let _linking = self.linking.acquire()?;
            let (linked, handle) = {
                let state = self.lock();
                if state.is_in_copy {
                    return Err(Error::invalid(
                        "a fresh run in a copy of an executor; spawn a fresh copy and call run_main",
                    ));
                }
                (state.linked.clone(), state.handle)
            };
            for one in linked.iter() {
                let initial = one.initial.as_ref().ok_or_else(|| {
                    Error::invalid(
                        "a fresh run of a program that was linked before keep_initial_data",
                    )
                })?;
                initial.restore(self.session().memory())?;
            }
            handle
        };
        let args = args.into_iter().map(|arg| Bytes(arg.as_ref().to_vec())).collect();
        self.session().run::<ProgramRun>(&(handle, main, args))
    }
}
