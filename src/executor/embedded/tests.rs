//! What a session of a host's has of this process: memory, and linked code that calls back.
#![allow(unsafe_code, reason = "provides a wrapper function")]

use std::ffi::c_char;
use std::sync::Mutex;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::*;
use crate::Prot;
use crate::call::contract::{Action, Remote, SESSION_INSTANCE};
use crate::executor::buffer::WrapperFunctionBuffer;
use crate::executor::controller_access::call_controller;
use crate::executor::memory::Segment;
use crate::executor::wrapper::{Serve, offer};
use crate::session::{InProcess, Session};
use crate::sps::{self, AllocGroup, Bytes};

/// What actions have done.
static NOTES: Mutex<Vec<u32>> = Mutex::new(Vec::new());

enum Note {}

impl Remote for Note {
    type Args = (u32,);
    type Ret = ();
    const NAME: &'static str = "note";
}

impl Serve for Note {
    fn serve((number,): (u32,)) -> Result<()> {
        NOTES.lock().expect("no panic").push(number);
        Ok(())
    }
}

fn note(number: u32) -> Action {
    (offer::<Note>().1, Bytes(sps::to_bytes(&(number,))))
}

fn options() -> Options {
    Options::new(|task| drop(thread::spawn(|| task.run()))).on_error(|_, error| panic!("{error}"))
}

#[test]
fn reserve_initialize_detach_shutdown() {
    let session = Session::new(options()).expect("a session");
    let instance = session.bootstrap_info().symbols().get(SESSION_INSTANCE).expect("offered");
    let memory = &Served::at(instance).expect("a live session").memory;
    let slab = memory.reserve_private(65536).expect("a slab");
    let segment = Segment {
        group: AllocGroup::standard(Prot::Data),
        start: slab,
        bytes: 4096,
        content: Some(b"content".to_vec()),
    };
    let actions = vec![(note(1), note(11)), (note(2), note(12))];
    memory.initialize(&[segment], actions).expect("initialized");
    let noted = || std::mem::take(&mut *NOTES.lock().expect("no panic"));
    assert_eq!(noted(), [1, 2]);
    session.detach(|| {});
    assert_eq!(noted(), [0; 0], "nothing at the detach");
    session.shutdown(|| {});
    session.wait().expect("it is over");
    assert_eq!(noted(), [12, 11], "the last first, at the shutdown");
    assert!(Served::at(instance).is_err(), "nobody finds it any more");
}

#[test]
fn options_of_which_no_session_is_made_leave_nothing() {
    let memory = Memory(Served::embedded());
    let instance = memory.0.instance();
    assert!(Served::at(instance).is_ok());
    drop(options().service(memory));
    assert!(Served::at(instance).is_err());
}

/// Linked code: calls handler 5 with its arguments, and returns what that does.
unsafe extern "C" fn calls_back(data: *const c_char, size: usize) -> WrapperFunctionBuffer {
    // SAFETY: the arguments of a wrapper function are readable.
    unsafe { call_controller(5, data, size) }
}

#[test]
fn linked_code_calls_the_controller_of_the_session_that_it_runs_in() {
    let address = ExecutorAddr::new(calls_back as *const () as u64);
    // Two sessions, so that the only one is not meant.
    let sessions = [1_u8, 2].map(|number| {
        let (access, controller) = InProcess::new(move |tag, mut args, reply| {
            assert_eq!(tag, 5);
            args.push(number);
            reply.send(if args[0] == 0 { Err("a zero".to_owned()) } else { Ok(args) });
        });
        let session = Session::new(options()).expect("a session");
        session.attach(access).expect("attached");
        (session, controller, number)
    });
    for (_session, controller, number) in &sessions {
        let call = |args: Vec<u8>| {
            let (sender, receiver) = mpsc::channel();
            controller.call(address, args, move |outcome| drop(sender.send(outcome)));
            receiver.recv_timeout(Duration::from_secs(30)).expect("completed")
        };
        assert_eq!(call(vec![9; 20]).expect("a result"), [&[9; 20][..], &[*number]].concat());
        let error = call(vec![0]).expect_err("out of band");
        assert!(error.is_remote() && error.to_string() == "a zero", "{error:?}");
    }
}
