//! The rule about completions: what waits for a reply never runs where replies are received.

use std::collections::HashMap;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use super::*;

/// A thread that still waits after this time is stuck.
const STUCK: Duration = Duration::from_millis(300);
/// A thread that is not stuck may take this long on a busy machine.
const PATIENT: Duration = Duration::from_secs(20);

type Completion = Box<dyn FnOnce(u64) + Send>;

/// One end of a connection: requests with numbers go out, and one thread receives the replies. Which thread runs a
/// completion is the dispatcher's business.
struct Requests {
    next: Mutex<u64>,
    pending: Mutex<HashMap<u64, Completion>>,
    peer: Sender<u64>,
}

impl Requests {
    fn connect(dispatcher: Arc<dyn TaskDispatcher>) -> Arc<Self> {
        let (peer, requests) = mpsc::channel::<u64>();
        let (reply, replies) = mpsc::channel();
        // Answers in the order in which it is asked.
        thread::spawn(move || requests.iter().try_for_each(|request| reply.send(request)));
        let (next, pending) = Default::default();
        let this = Arc::new(Self { next, pending, peer });
        let receiver = Arc::downgrade(&this);
        thread::spawn(move || {
            for number in replies {
                let Some(this) = receiver.upgrade() else { break };
                let completion = this.pending.lock().expect("no panic").remove(&number);
                let completion = completion.expect("one reply for each request");
                dispatcher.dispatch(Task::new(move || completion(number)));
            }
        });
        this
    }

    fn request(&self, completion: impl FnOnce(u64) + Send + 'static) {
        let mut next = self.next.lock().expect("no panic");
        *next += 1;
        self.pending.lock().expect("no panic").insert(*next, Box::new(completion));
        self.peer.send(*next).expect("a peer");
    }

    /// A request that the caller waits for.
    fn wait(&self, deadline: Duration) -> Result<u64, RecvTimeoutError> {
        let (done, is_done) = mpsc::channel();
        // No thread listens any more when the time was up.
        self.request(move |number| _ = done.send(number));
        is_done.recv_timeout(deadline)
    }
}

/// Finalizes, and has the handler of that wait for another reply, as a debug-object plugin does that asks for memory.
fn finalize(
    dispatcher: Arc<dyn TaskDispatcher>,
    deadline: Duration,
) -> Receiver<Result<u64, RecvTimeoutError>> {
    let requests = Requests::connect(dispatcher);
    let (done, is_done) = mpsc::channel();
    let inner = Arc::clone(&requests);
    requests.request(move |_| _ = done.send(inner.wait(deadline)));
    is_done
}

#[test]
fn a_waiting_finalize_handler_hangs_on_the_receiving_thread() {
    let done = finalize(Arc::new(Inline::new()), STUCK);
    let outcome = done.recv_timeout(PATIENT).expect("it times out");
    assert_eq!(outcome, Err(RecvTimeoutError::Timeout), "a naive dispatcher must hang");
}

#[test]
fn a_finalize_handler_that_waits_gets_its_reply_from_a_pool() {
    for width in [1, 2] {
        let done = finalize(Arc::new(ThreadPool::new(width)), PATIENT);
        assert_eq!(done.recv_timeout(PATIENT).expect("it ends"), Ok(2));
    }
}

#[test]
fn a_waiting_finalize_handler_gets_its_reply_from_a_loop() {
    let queue = Arc::new(Queueing::new());
    let done = finalize(Arc::clone(&queue) as Arc<dyn TaskDispatcher>, PATIENT);
    // Two threads of the host's take turns: one waits in the handler, the other runs the completion that ends that.
    for _ in 0..2 {
        let queue = Arc::clone(&queue);
        thread::spawn(move || {
            while let Some(task) = queue.take_first_in() {
                task.run();
            }
        });
    }
    assert_eq!(done.recv_timeout(PATIENT).expect("it ends"), Ok(2));
    queue.close();
}
