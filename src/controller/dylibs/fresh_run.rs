//! A program that runs again and again, each time with the data that it was linked with.

use super::dylib::Dylib;
use crate::call::contract::ProgramRun;
use crate::error::{Error, Result};
use crate::sps::Bytes;

impl Dylib {
    /// Makes links from now on keep a copy of their initial data in the memory of this process, for
    /// [`run_fresh`](Dylib::run_fresh).
    pub fn keep_initial_data(&self) {
        self.lock().keeps_data = true;
    }

    /// Runs the program with fresh data, as a process of its own would, in this order:
    ///
    /// 1. Its variables and thread-locals get their initial values.
    /// 2. The initializers run.
    /// 3. `main` runs with these arguments, the program's name first.
    /// 4. The handlers registered with `atexit` run, then the finalizers.
    ///
    /// Returns the result of `main`. Takes one round trip and links nothing again.
    ///
    /// Only data of the program itself is fresh. The state of the libraries stays as the program left it: memory from `malloc`, open
    /// files, the buffers of standard streams, `environ`, the working directory. No code of the program may be running, threads of its
    /// own included. The arguments are freed when the run ends.
    ///
    /// # Errors
    ///
    /// When the program has no `main`, or was linked before [`keep_initial_data`](Dylib::keep_initial_data). When the executor
    /// ends meanwhile ([`Error::death`], also when the program calls `exit`). Otherwise as [`Dylib::link`].
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
