//! A program that is run again and again, each time as if it had just been linked.

use super::dylib::Dylib;
use crate::call::contract::ProgramRun;
use crate::error::{Error, Result};
use crate::sps::Bytes;

impl Dylib {
    /// From the next link on the data that is linked is kept as it is at first, in the memory of this process, for
    /// [`run_fresh`](Dylib::run_fresh).
    pub fn keep_initial_data(&self) {
        self.lock().keeps_data = true;
    }

    /// Runs the program as a process of its own would, with fresh data: its variables and thread-locals have their initial
    /// values, the initializers run, then `main` with these arguments, the program's name first, then what was registered
    /// with `atexit` and the finalizers. Returns what `main` returns. One round trip, and nothing is linked again.
    ///
    /// Fresh is what belongs to the program. What it took from the libraries is as it left it: memory from `malloc`, open files, the
    /// buffers of standard streams, `environ`, the working directory. Nothing of the program may be running, threads of its own
    /// included; the arguments are gone when it returns.
    ///
    /// # Errors
    ///
    /// When there is no `main`, or [`keep_initial_data`](Dylib::keep_initial_data) was not called before the program was linked;
    /// when the executor ends meanwhile ([`Error::death`], also when the program calls `exit`), or as [`Dylib::link`].
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # let controller = farcall::controller::ExecutorBuilder::new().start()?;
    /// # let object = farcall::link::ObjectFile::parse("program.o", Vec::new())?;
    /// let program = controller.create_dylib("program");
    /// program.keep_initial_data();
    /// program.add_object(&object)?;
    /// for _ in 0..10_000 {
    ///     assert_eq!(program.run_fresh(["program"])?, 0);
    /// }
    /// # Ok::<(), farcall::Error>(())
    /// ```
    pub fn run_fresh<A: AsRef<[u8]>>(&self, args: impl IntoIterator<Item = A>) -> Result<i32> {
        let main = self.lookup("main")?;
        let handle = {
            let _linking = self.linking.acquire()?;
            let (linked, handle) = {
                let state = self.lock();
                (state.linked.clone(), state.handle)
            };
            for one in linked.iter() {
                let initial = one.initial.as_ref().ok_or_else(|| {
                    Error::invalid("a fresh run of what was linked before its data was to be kept")
                })?;
                initial.restore(self.session().memory())?;
            }
            handle
        };
        let args = args.into_iter().map(|arg| Bytes(arg.as_ref().to_vec())).collect();
        self.session().run::<ProgramRun>(&(handle, main, args))
    }
}
