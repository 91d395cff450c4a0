//! The reset of a copy: its first state, in which it has served no call of the host, and the way back there.
//!
//! The first state is inside of the call [`CopyKeep`]. A reset is the call [`CopyReset`], which returns from [`CopyKeep`] once more.
//! Only how far the lane has come is carried over, as the host knows of both calls.
//!
//! Memory that the host shares with the copy is not put back. So a copy that has linked code or attached a region since is not reset.
#![allow(unsafe_code, reason = "puts the process back in an earlier state")]

use std::rc::Rc;

use crate::call::contract::{CopyKeep, CopyReset};
use crate::call::{LaneEnd, Lanes};
use crate::error::{Error, Result};
use crate::executor::context::instance::Instance;
use crate::executor::entry::wrapper::Serve;
use crate::sync::{AtomicU64, Ordering};
use crate::sys::first_state::{self, Moment};
use crate::wire::layout::DOORBELL_WORD;

/// The numbers of [`now`] in the first state.
static FIRST: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];

impl Serve for CopyKeep {
    fn serve((compares,): (bool,)) -> Result<Option<String>> {
        Ok(keep(compares).err().map(|error| error.to_string()))
    }
}

impl Serve for CopyReset {
    fn serve((): ()) -> Result<Option<String>> {
        Ok(Some(reset().unwrap_or_else(|error| error).to_string()))
    }
}

fn keep(compares: bool) -> Result<()> {
    let session = Instance::only()?;
    session.acceptor()?.sleep_soundly();
    for (first, now) in FIRST.iter().zip(now(&session)?) {
        first.store(now, Ordering::Relaxed);
    }
    // Before the state: the same values are there after a reset.
    let lane = lane()?;
    match first_state::keep(compares)? {
        Moment::Kept => {}
        Moment::Back(progress) => lane.go_on_from(&progress),
    }
    Ok(())
}

/// Returns why the copy is not reset.
fn reset() -> Result<Error> {
    if !first_state::is_kept() {
        return Err(Error::invalid(
            "no first state was kept for this copy: use Snapshot::spawn_resettable",
        ));
    }
    let session = Instance::only()?;
    let [doorbell, slabs, regions] = now(&session)?;
    let [first_doorbell, first_slabs, first_regions] =
        FIRST.each_ref().map(|first| first.load(Ordering::Relaxed));
    let refusal = |what: &str| {
        Error::invalid(format!("this copy cannot be reset, so make a new one: it has {what} since"))
    };
    if slabs != first_slabs {
        return Err(refusal("linked code"));
    }
    if regions != first_regions {
        return Err(refusal("attached or detached a region"));
    }
    let progress = lane()?.progress()?;
    // The acceptor's thread wakes when the doorbell has rung, and all others that this one wakes.
    let has_moved = doorbell != first_doorbell;
    // SAFETY: the controller sends no message meanwhile, and the acceptor's thread sleeps without a time since `sleep_soundly`. The standby
    // thread wakes for the acceptor's. Of the values of after `keep` only the progress of the lane counts, which is carried over.
    Ok(unsafe { first_state::put_back(progress, has_moved) })
}

/// The counts of the doorbell, of slabs and of regions.
fn now(session: &Instance) -> Result<[u64; 3]> {
    let doorbell = session.acceptor()?.first.words()[DOORBELL_WORD].load(Ordering::Acquire);
    Ok([doorbell, session.memory.slabs().len() as u64, session.attached.count() as u64])
}

/// The lane on which the call has come.
fn lane() -> Result<Rc<LaneEnd>> {
    Lanes::served().ok_or_else(|| Error::invalid("the call came over no lane"))
}
