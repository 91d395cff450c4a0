//! Calls from a signal handler, as the transport sees them: in the middle of sending, and of waiting.

use std::cell::RefCell;
use std::rc::{Rc, Weak};

use super::{By, echo};
use crate::call::Endpoint;
use crate::deadline::Deadline;
use crate::error::{Error, ErrorKind, Result};
use crate::transport::{Incoming, Transport};
use crate::wire::Kind;

/// A transport in which a signal interrupts the thread at each operation. Each call has an empty answer.
struct Interrupted {
    end: Weak<Endpoint<Interrupted>>,
    errors: Rc<RefCell<Vec<Error>>>,
}

impl Interrupted {
    /// What a signal handler does when it calls.
    fn interrupt(&self) {
        let end = self.end.upgrade().expect("it is in use");
        let outcome = end.call(&By(echo), Deadline::SESSION_END, 1, b"from a handler", |_| ());
        self.errors.borrow_mut().push(outcome.expect_err("the thread is inside of a call"));
    }
}

impl Transport for Interrupted {
    fn send(&mut self, _: Kind, _: u64, _: &[u8], _: Deadline) -> Result<()> {
        self.interrupt();
        Ok(())
    }

    fn post(&mut self, _: Kind, _: u64, _: u64, _: &[u8], _: Deadline) -> Result<()> {
        self.interrupt();
        Ok(())
    }

    fn receive(&mut self, _: Deadline, message: &mut Incoming) -> Result<bool> {
        self.interrupt();
        message.kind = Kind::Result;
        Ok(true)
    }

    fn settle(&mut self, _: u64) {}

    fn code_written(&mut self) {}
}

#[test]
fn a_call_that_interrupts_another_one_is_an_error_of_its_own() {
    let errors = Rc::default();
    let end = Rc::new_cyclic(|end| {
        Endpoint::new(Interrupted { end: Weak::clone(end), errors: Rc::clone(&errors) })
    });
    for calls in 1..=3 {
        end.post(1, b"posted", Deadline::SESSION_END).expect("sent ahead");
        end.call(&By(echo), Deadline::SESSION_END, 1, b"a call", |_| ()).expect("goes on");
        assert!(!end.is_busy(), "the call is over");
        assert_eq!(errors.borrow().len(), 3 * calls);
    }
    for error in errors.borrow().iter() {
        assert!(
            error.kind() == ErrorKind::InvalidArgument && !error.is_disconnected(),
            "{error:?}"
        );
        assert!(error.to_string().contains("not async-signal-safe"), "{error}");
    }
}
