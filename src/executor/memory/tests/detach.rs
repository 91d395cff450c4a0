//! The memory of a session that is detached, and of one that is shut down.

use std::sync::{Mutex, mpsc};

use super::*;
use crate::call::contract::{NativeInitialize, NativeReserve, SESSION_INSTANCE};
use crate::session::InProcess;
use crate::session::SessionBuilder;
use crate::sps::Expected;
use crate::task::{TaskDispatcher, ThreadPool};

/// The numbers of the dealloc actions that ran, on any thread.
static DONE: Mutex<Vec<u32>> = Mutex::new(Vec::new());

enum Log {}

impl Remote for Log {
    type Args = (u32,);
    type Ret = ();
    const NAME: &'static str = "log";
}

impl Serve for Log {
    fn serve((number,): (u32,)) -> Result<()> {
        DONE.lock().expect("no panic").push(number);
        Ok(())
    }
}

fn done() -> Vec<u32> {
    std::mem::take(&mut *DONE.lock().expect("no panic"))
}

#[test]
fn reserve_initialize_detach_shutdown() {
    let pool = ThreadPool::new(1);
    let session = SessionBuilder::new(move |task| pool.dispatch(task)).build().expect("a session");
    let (access, controller) =
        InProcess::new(|_, _, reply| reply.send(Err("no handler".to_owned())));
    session.attach(access).expect("the first");
    let named = |wanted: &str| {
        let mut symbols = session.bootstrap_info().symbols().iter();
        symbols.find(|(name, _)| *name == wanted).expect("offered").1
    };
    let call = |name: &str, args: Vec<u8>| {
        let (answer, answered) = mpsc::channel();
        controller.call(named(name), args, move |result| _ = answer.send(result));
        let answer = answered.recv().expect("an answer").expect("a result");
        let address = sps::from_bytes::<Expected<ExecutorAddr>>(&answer).expect("decodes");
        address.into_result().expect("an address")
    };
    let instance = named(SESSION_INSTANCE);
    let slab = call(NativeReserve::NAME, sps::to_bytes(&(instance, 65536_u64)));
    let content = (AllocGroup::standard(Prot::Data), slab, PAGE_BYTES, Bytes(b"data".to_vec()));
    let log = |number: u32| (offer::<Log>().1, Bytes(sps::to_bytes(&(number,))));
    let pairs = vec![(log(1), log(11)), (log(2), log(12))];
    let request = sps::to_bytes(&(instance, vec![content], pairs));
    assert_eq!(call(NativeInitialize::NAME, request), slab);
    assert_eq!(done(), [1, 2]);

    let (detached, is_detached) = mpsc::channel();
    session.detach(move || detached.send(()).expect("a receiver"));
    is_detached.recv().expect("it ends");
    assert_eq!(done(), [0; 0], "code goes on");
    session.shutdown(|| {});
    session.wait().expect("nothing runs");
    assert_eq!(done(), [12, 11]);
}
