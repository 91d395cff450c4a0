//! Waiting as a task does.

use super::*;

/// Counts wakes and ends the wait of a thread.
pub(super) struct Alarm(pub(super) AtomicU64, thread::Thread);

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
        self.1.unpark();
    }
}

pub(super) fn alarm() -> (Arc<Alarm>, Waker) {
    let alarm = Arc::new(Alarm(AtomicU64::new(0), thread::current()));
    (Arc::clone(&alarm), Waker::from(alarm))
}

/// What a future would do.
fn block_on(caller: &Caller, completion: &Completion) -> u64 {
    let (alarm, waker) = alarm();
    let mut pendings = 0;
    let future = std::future::poll_fn(|context| caller.poll_for(completion, context));
    let mut future = pin!(future);
    while future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
        pendings += 1;
        let begun = Instant::now();
        while alarm.0.load(Ordering::SeqCst) < pendings {
            assert!(begun.elapsed() < Duration::from_secs(20), "nobody wakes the task");
            thread::park_timeout(Duration::from_secs(1));
        }
    }
    pendings
}

#[test]
fn tasks_are_woken_by_a_listener() {
    let served = serve(0, 0);
    let listener = thread::spawn({
        let caller = Arc::clone(&served.caller);
        move || caller.listen()
    });
    let mut pendings = 0;
    for at in 0..200_u64 {
        let slow = submit(&served.caller, SLEEP, &[at.is_multiple_of(20).into()]).expect("sent");
        let args = at.to_le_bytes();
        let echo = submit(&served.caller, ECHO, &args).expect("submitted");
        // Blocking calls and tasks may be mixed.
        assert_eq!(call(&served.caller, ECHO, &args).expect("a result"), args);
        let late = submit(&served.caller, SLEEP, &[1]).expect("submitted");
        pendings += block_on(&served.caller, &late);
        pendings += block_on(&served.caller, &slow) + block_on(&served.caller, &echo);
        assert_eq!(result(&served.caller, &echo).expect("a result"), args);
    }
    assert!(pendings > 100, "{pendings} times pending");
    served.end();
    listener.join().expect("no panic");
}

#[test]
fn tasks_are_woken_by_who_polls() {
    let served = serve(0, 0);
    let (alarm, waker) = alarm();
    let completion = submit(&served.caller, SLEEP, &[5]).expect("submitted");
    let context = Context::from_waker(&waker);
    assert!(served.caller.poll_for(&completion, &context).is_pending());
    let mut came = 0;
    while came == 0 {
        came = served.caller.poll();
    }
    assert_eq!((came, alarm.0.load(Ordering::SeqCst)), (1, 1));
    assert_eq!(served.caller.poll_for(&completion, &context), Poll::Ready(()));
    // A task that is not polled any more wakes no thread.
    let dropped = submit(&served.caller, SLEEP, &[5]).expect("submitted");
    assert!(served.caller.poll_for(&dropped, &context).is_pending());
    served.caller.expire(&dropped);
    while served.caller.late() == 0 {
        served.caller.poll();
    }
    assert_eq!(alarm.0.load(Ordering::SeqCst), 1);
    served.end();
}
