//! Poll mode: a host serves calls in its own epoll loop, beside a timer. The library starts no thread.

use farcall::{Connection, controller::Client, executor::Polled};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use std::{os::unix::net::UnixStream, thread, time::Duration};

fn controller(socket: UnixStream) -> farcall::Result<()> {
    // A real controller is another process.
    let client = Client::connect(Connection::create_shared(socket)?)?;
    let info = client.symbol("farcall_process_info").expect("offered");
    (0..100).try_for_each(|_| {
        thread::sleep(Duration::from_millis(1));
        client.call(info, &[], None).map(drop)
    })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (ours, theirs) = UnixStream::pair()?;
    thread::spawn(|| controller(theirs));
    let mut polled = Polled::new(Connection::attach_shared(ours)?)?;
    let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::empty())?;
    timer
        .set(Expiration::Interval(Duration::from_millis(10).into()), TimerSetTimeFlags::empty())?;

    let epoll = Epoll::new(EpollCreateFlags::empty())?;
    epoll.add(&polled, EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
    epoll.add(&timer, EpollEvent::new(EpollFlags::EPOLLIN, 1))?;
    let (mut calls, mut ticks, mut event) = (0, 0, [EpollEvent::empty()]);
    while !polled.has_ended() {
        epoll.wait(&mut event, EpollTimeout::NONE)?;
        match event[0].data() {
            0 => calls += polled.poll()?,
            _ => ticks += timer.wait().map(|()| 1)?,
        }
    }
    println!("{calls} calls served, {ticks} ticks of the timer");
    Ok(())
}
