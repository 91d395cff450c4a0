//! A function at an address of one process, called in every way.
//!
//! Invariant: no function can harm this process by what it returns. Any answer of the executor becomes a result of the function's
//! type, or an error.

use std::fmt;
use std::sync::Arc;

use super::batch::Batch;
use super::function_type::{CFunctionType, FunctionType};
use super::pending_call::PendingCall;
use super::pipeline::Pipeline;
use super::rows::{Rows, RowsForm};
use crate::ExecutorAddr;
use crate::call::Wait;
use crate::call::direct::Direct;
use crate::call::pipeline::Alike;
use crate::call::typed::{HEAD_BYTES, head};
use crate::controller::session::Session;
use crate::deadline::Deadline;
use crate::error::{Error, Result};

/// A function of one process, of the type `F`.
pub(in crate::controller) struct BoundFunction<F: FunctionType> {
    session: Arc<Session>,
    address: ExecutorAddr,
    /// The wrapper function that is called: the function itself, or the executor's for typed calls. Null when the executor offers
    /// none.
    target: ExecutorAddr,
    /// What is in front of the arguments of a typed call.
    head: [u8; HEAD_BYTES],
    form: F::Form,
    /// Where calls are submitted; `None` for the session's own pipeline.
    pipeline: Option<Pipeline>,
}

impl<F: FunctionType> BoundFunction<F> {
    pub(in crate::controller) fn new(
        session: &Arc<Session>,
        address: ExecutorAddr,
        form: F::Form,
    ) -> Self {
        let (target, head) = match F::shape(&form) {
            None => (address, [0; HEAD_BYTES]),
            Some(shape) => {
                (session.remote().named(F::CALLED_BY).unwrap_or_default(), head(address, shape))
            }
        };
        Self { session: Arc::clone(session), address, target, head, form, pipeline: None }
    }

    pub(in crate::controller) fn address(&self) -> ExecutorAddr {
        self.address
    }

    pub(in crate::controller) fn session(&self) -> &Arc<Session> {
        &self.session
    }

    pub(in crate::controller) fn form(&self) -> &F::Form {
        &self.form
    }

    /// The same function, whose calls are submitted to this pipeline.
    ///
    /// # Errors
    ///
    /// When the pipeline belongs to another process.
    pub(in crate::controller) fn over(self, pipeline: &Pipeline) -> Result<Self> {
        match pipeline.is_of(&self.session) {
            true => Ok(Self { pipeline: Some(pipeline.clone()), ..self }),
            false => {
                Err(Error::invalid("the pipeline belongs to another process than the function"))
            }
        }
    }

    /// Calls the function and waits for its result.
    #[inline]
    pub(in crate::controller) fn call<'w>(
        &self,
        wait: impl Into<Wait<'w>> + Copy,
        arguments: F::Arguments<'_>,
    ) -> Result<F::Result> {
        if let Some(direct) = self.session.remote().direct() {
            return self.call_direct(direct, arguments);
        }
        F::with_message(&self.form, &self.head, arguments, |message| {
            self.session.call(self.target, message, wait, |result| {
                F::decode(&self.form, &result.payload().bytes())
            })?
        })
    }

    /// The same in this process: the result does not pass through memory in pieces.
    #[inline]
    fn call_direct(&self, direct: &Arc<Direct>, arguments: F::Arguments<'_>) -> Result<F::Result> {
        let outcome = self.session.counted(|| {
            F::with_message(&self.form, &self.head, arguments, |message| {
                direct.call(self.target.get(), message, |bytes| F::decode(&self.form, bytes))
            })
        });
        self.session.remove_retired();
        match outcome {
            Ok(result) => Ok(result),
            Err(error) => Err(self.session.remote().explain(error, Deadline::now())),
        }
    }

    /// Submits a call without waiting for its result.
    pub(in crate::controller) fn submit(
        &self,
        arguments: F::Arguments<'_>,
    ) -> Result<PendingCall<F>> {
        let pipeline = self.pipeline()?;
        F::with_message(&self.form, &self.head, arguments, |message| {
            PendingCall::submit(pipeline.handle(), self.target, message, self.form.clone())
        })
    }

    /// Submits a call for each of the arguments. Many calls travel in one message.
    pub(in crate::controller) fn batch<'a>(
        &self,
        arguments: impl IntoIterator<Item = F::Arguments<'a>>,
    ) -> Result<Batch<F>> {
        let pipeline = self.pipeline()?;
        let is_typed = F::shape(&self.form).is_some();
        // A typed call begins with the head, which is sent once for many.
        let skipped = if is_typed { HEAD_BYTES } else { 0 };
        let (mut messages, mut ends) = (Vec::new(), Vec::new());
        for arguments in arguments {
            let at = ends.len();
            let added = F::with_message(&self.form, &self.head, arguments, |message| {
                messages.extend_from_slice(message.get(skipped..).unwrap_or_default());
                Ok(())
            });
            added.map_err(|error| error.during(format_args!("call {at} of the batch")))?;
            ends.push(messages.len());
        }
        let (target, calls) = (self.target.get(), ends.len());
        if is_typed {
            let calls = Alike { target, shared: &self.head, rests: &messages, calls };
            return Batch::submit_alike(pipeline.handle(), &calls, self.form.clone());
        }
        let message = |at: usize| {
            let start = at.checked_sub(1).and_then(|before| ends.get(before)).copied();
            let end = ends.get(at).copied().unwrap_or_default();
            (target, messages.get(start.unwrap_or(0)..end).unwrap_or_default())
        };
        Batch::submit(pipeline.handle(), (0..calls).map(message), self.form.clone())
    }

    /// The same function, to be called for each row of a table by one message.
    pub(in crate::controller) fn rows(&self) -> BoundFunction<Rows<F>>
    where
        F: CFunctionType,
    {
        let form = RowsForm::new::<F>(self.form.clone());
        BoundFunction {
            pipeline: self.pipeline.clone(),
            ..BoundFunction::new(&self.session, self.address, form)
        }
    }

    fn pipeline(&self) -> Result<Pipeline> {
        match &self.pipeline {
            Some(pipeline) => Ok(pipeline.clone()),
            None => Pipeline::of_session(&self.session),
        }
    }
}

impl<F: FunctionType> Clone for BoundFunction<F> {
    fn clone(&self) -> Self {
        Self {
            session: Arc::clone(&self.session),
            form: self.form.clone(),
            pipeline: self.pipeline.clone(),
            ..*self
        }
    }
}

impl<F: FunctionType> fmt::Debug for BoundFunction<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", F::name(&self.form), self.address)
    }
}
