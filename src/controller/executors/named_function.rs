//! A function that is found by its name, in the present process of each slot.

use std::fmt;
use std::sync::Arc;

use super::generation::{Generation, LibraryName};
use super::slots::{Lease, Slots};
use crate::controller::calls::bound_function::BoundFunction;
use crate::controller::calls::handle::Abandoned;
use crate::controller::calls::rows::RowsForm;
use crate::controller::calls::{
    Batch, CFunctionType, CallOptions, FunctionType, PendingCall, Rows,
};
use crate::deadline::Deadline;
use crate::error::{Error, ErrorKind, Result};
use crate::sync::{AtomicU64, Mutex, Ordering};

/// A function of a library, by its name.
pub(super) struct NamedFunction<F: FunctionType> {
    // Dropped before the slots, out of which it is taken.
    library: Arc<LibraryName>,
    slots: Arc<Slots>,
    name: Arc<str>,
    form: F::Form,
    /// The function in the process that was called last, for each slot.
    bound: Box<[Known<F>]>,
    /// The slot that was called last.
    last: AtomicU64,
}

type Known<F> = Mutex<Option<Arc<Bound<F>>>>;

/// A function in one process.
struct Bound<F: FunctionType> {
    generation: Arc<Generation>,
    /// How often the library's code was removed before the function was looked up.
    removals: u64,
    function: BoundFunction<F>,
    /// Kills the process when a call has timed out, if the policy says so.
    late: Option<Abandoned>,
}

impl<F: FunctionType> NamedFunction<F> {
    pub(super) fn new(
        slots: &Arc<Slots>,
        library: Arc<LibraryName>,
        name: Arc<str>,
        form: F::Form,
    ) -> Self {
        let bound = slots.all().iter().map(|_| Mutex::default()).collect();
        let (slots, last) = (Arc::clone(slots), AtomicU64::new(0));
        Self { slots, library, name, form, bound, last }
    }

    pub(super) fn form(&self) -> &F::Form {
        &self.form
    }

    /// The same function in one slot.
    pub(super) fn on(&self, slot: usize) -> Option<Self> {
        let slots = Arc::new(self.slots.one(slot)?);
        Some(Self::new(
            &slots,
            Arc::clone(&self.library),
            Arc::clone(&self.name),
            self.form.clone(),
        ))
    }

    /// The same function for the rows of a table.
    pub(super) fn rows(&self) -> NamedFunction<Rows<F>>
    where
        F: CFunctionType,
    {
        let (form, name) = (RowsForm::new::<F>(self.form.clone()), Arc::clone(&self.name));
        NamedFunction::new(&self.slots, Arc::clone(&self.library), name, form)
    }

    /// Makes a call in a process that a call with these options may have. `call` gets the function there, and what kills the process.
    #[inline]
    pub(super) fn lend<R>(
        &self,
        options: &CallOptions<'_>,
        deadline: Deadline,
        call: impl FnOnce(&BoundFunction<F>, &dyn Fn(&Error)) -> Result<R>,
    ) -> Result<R> {
        let mut lease = self.lease(options, deadline)?;
        let mut is_new = false;
        let bound = self.bound(lease.slot(), deadline, &mut is_new);
        let outcome = bound.and_then(|bound| {
            let outcome = call(&bound.function, &|error| bound.generation.kill(error));
            if let (Err(error), Some(late)) = (&outcome, &bound.late)
                && error.kind() == ErrorKind::Timeout
            {
                late(error);
            }
            outcome
        });
        if outcome.is_err() {
            lease.failed();
        }
        if is_new {
            self.slots.all()[lease.slot()].stand_by();
        }
        outcome
    }

    pub(super) fn submit(&self, arguments: F::Arguments<'_>) -> Result<PendingCall<F>> {
        let bound = self.any()?;
        Ok(bound.function.submit(arguments)?.telling(bound.late.clone()))
    }

    pub(super) fn batch<'a>(
        &self,
        arguments: impl IntoIterator<Item = F::Arguments<'a>>,
    ) -> Result<Batch<F>> {
        let bound = self.any()?;
        Ok(bound.function.batch(arguments)?.telling(bound.late.clone()))
    }

    /// The function in a process, for calls that wait for no free one.
    pub(super) fn bind(&self) -> Result<BoundFunction<F>> {
        Ok(self.any()?.function.clone())
    }

    fn any(&self) -> Result<Arc<Bound<F>>> {
        self.bound(self.slots.in_turn(), Deadline::SESSION_END, &mut false)
    }

    /// A slot that a call may have. The call's watch runs while there is none.
    #[inline]
    fn lease(&self, options: &CallOptions<'_>, deadline: Deadline) -> Result<Lease<'_>> {
        // Only several processes have a queue, and only that wait needs the clock.
        let Some((every, watch)) = options.watch.filter(|_| self.slots.has_queue()) else {
            return self.free_slot(deadline);
        };
        loop {
            match self.free_slot(deadline.or_after(every)) {
                Err(error) if error.kind() == ErrorKind::Timeout && !deadline.has_passed() => {
                    watch()?;
                }
                lease => return lease,
            }
        }
    }

    #[inline]
    fn free_slot(&self, deadline: Deadline) -> Result<Lease<'_>> {
        // Relaxed: any value is right.
        let last = self.last.load(Ordering::Relaxed);
        let lease = self.slots.lease(usize::try_from(last).unwrap_or(0), deadline)?;
        if lease.slot() as u64 != last {
            self.last.store(lease.slot() as u64, Ordering::Relaxed);
        }
        Ok(lease)
    }

    /// The function in the present process of a slot, looked up unless it is known. Says if it was not.
    fn bound(&self, slot: usize, deadline: Deadline, is_new: &mut bool) -> Result<Arc<Bound<F>>> {
        let place = &self.bound[slot];
        let known = place.lock().clone();
        let removals = self.library.removals();
        let is_present =
            |bound: &Arc<Bound<F>>| bound.removals == removals && bound.generation.is_alive();
        if let Some(bound) = known.filter(is_present) {
            return Ok(bound);
        }
        *is_new = true;
        let slot = &self.slots.all()[slot];
        let generation = slot.present(deadline)?;
        let dylib = generation.dylib(&self.library);
        let killed = Arc::clone(&generation);
        let kill = move |error: &_| killed.kill(error);
        let late = slot.policy().kills_on_timeout.then(|| Arc::new(kill) as Abandoned);
        let address = dylib.lookup(&self.name, deadline).inspect_err(|error| {
            if let (ErrorKind::Timeout, Some(late)) = (error.kind(), &late) {
                late(error);
            }
        })?;
        if let Some(prototype) = F::prototype(&self.form) {
            dylib.compare(&self.name, &prototype)?;
        }
        let session = &generation.process.session;
        let function = BoundFunction::new(session, address, self.form.clone());
        let bound = Arc::new(Bound { generation, removals, function, late });
        let earlier = place.lock().replace(Arc::clone(&bound));
        // Dropping a session runs code of the host: not under the lock.
        drop(earlier);
        Ok(bound)
    }
}

impl<F: FunctionType> Clone for NamedFunction<F> {
    fn clone(&self) -> Self {
        let bound = self.bound.iter().map(|bound| Mutex::new(bound.lock().clone())).collect();
        Self {
            slots: Arc::clone(&self.slots),
            library: Arc::clone(&self.library),
            name: Arc::clone(&self.name),
            form: self.form.clone(),
            bound,
            last: AtomicU64::new(self.last.load(Ordering::Relaxed)),
        }
    }
}

impl<F: FunctionType> fmt::Debug for NamedFunction<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}: {}", self.name, self.library.name, F::name(&self.form))
    }
}
