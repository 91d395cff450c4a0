//! Calls as futures in the host's own executor, `run`: all calls are submitted before the first one is awaited.

mod twice;

use std::task::{Context, Poll, Wake, Waker};
use std::{pin::pin, sync::Arc, thread};

struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn run<F: Future>(future: F) -> F::Output {
    let (mut future, waker) = (pin!(future), Waker::from(Arc::new(Unpark(thread::current()))));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    farcall::executor::run_if_spawned(); // this program is its own executor
    let executor = farcall::controller::ExecutorBuilder::new().this_program().start()?;
    let process = executor.process()?;
    let dylib = executor.library("main");
    dylib.add_object(&twice::compile()?)?;
    let (pipeline, twice) = (process.pipeline()?, dylib.lookup("twice")?);
    for call in [1_u64, 21, 99].map(|number| pipeline.submit(twice, &number.to_le_bytes())) {
        println!("{:?}", run(call?)?);
    }
    Ok(())
}
