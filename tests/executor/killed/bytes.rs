//! One end is killed when a given number of its bytes has arrived: between two frames, in a header, in a payload.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Command;

use super::executors::{self, Deed};
use super::{Points, Victim, Way, controllers};

const HEADER_BYTES: usize = 32;

/// Runs a conversation in which no more than `cut` bytes of the victim arrive, and it is killed behind them. Returns what has
/// arrived.
fn cut(
    command: Command,
    cut: Option<usize>,
    what: &str,
    survivor: impl FnOnce(OwnedFd),
) -> Vec<u8> {
    let (victim, theirs) = Victim::start(command, cut.map(|_| controllers::STAYS));
    let theirs = UnixStream::from(theirs);
    let (socket, ours) = UnixStream::pair().expect("sockets");
    let arrived = std::thread::scope(|scope| {
        scope.spawn(|| {
            // Whichever end is gone, it is over.
            let _ = std::io::copy(&mut &ours, &mut &theirs);
            let _ = theirs.shutdown(Shutdown::Write);
        });
        let arrived = scope.spawn(|| {
            let (mut arrived, mut bytes) = (Vec::new(), vec![0; 64 << 10]);
            while cut != Some(arrived.len()) {
                let most = cut.map_or(bytes.len(), |cut| bytes.len().min(cut - arrived.len()));
                let count = (&theirs).read(&mut bytes[..most]).unwrap_or(0);
                if count == 0 || (&ours).write_all(&bytes[..count]).is_err() {
                    break;
                }
                arrived.extend_from_slice(&bytes[..count]);
            }
            if cut.is_some() {
                victim.kill();
                victim.wait();
            }
            let _ = ours.shutdown(Shutdown::Write);
            arrived
        });
        survivor(socket.into());
        arrived.join().expect("no panic")
    });
    match cut {
        Some(cut) => {
            victim.was_killed(what);
            assert_eq!(arrived.len(), cut, "{what}");
        }
        None => assert_eq!(victim.end().0, None, "{what}"),
    }
    arrived
}

/// Where to cut what was sent: in and between all frames, and more often in the first of each kind.
fn cuts(sent: &[u8]) -> Vec<usize> {
    let (mut cuts, mut kinds, mut start) = (Vec::new(), Vec::new(), 0);
    while start < sent.len() {
        let word = |at: usize| {
            let bytes = sent[start + at..start + at + 8].try_into().expect("8 bytes");
            u64::from_le_bytes(bytes)
        };
        let (bytes, kind) = (usize::try_from(word(0)).expect("a size"), word(8));
        let payload = bytes - HEADER_BYTES;
        cuts.extend([start, start + HEADER_BYTES + payload / 2, start + bytes - 1]);
        if !kinds.contains(&kind) {
            kinds.push(kind);
            cuts.extend([1, 16, HEADER_BYTES - 1, HEADER_BYTES].map(|at| start + at));
        }
        start += bytes;
    }
    assert_eq!(start, sent.len(), "whole frames");
    cuts.sort_unstable();
    cuts.dedup();
    cuts
}

/// Every cut of every victim that writes a stream.
pub(super) fn all(points: &mut Points) {
    let way = Way::Stream;
    let converse = |socket| _ = executors::converse(way, socket, Deed::None);
    for (kind, _) in executors::Kind::all().filter(|(_, other)| *other == way) {
        let name = format!("executor {kind:?}, by bytes").to_lowercase();
        let sent =
            points.runs(&name, "nobody dies", |what| cut(kind.command(way), None, what, converse));
        for at in cuts(&sent) {
            points.dies(&name, &format!("behind {at} bytes"), |what| {
                cut(kind.command(way), Some(at), what, converse);
            });
        }
    }
    for kind in [controllers::Kind::Session, controllers::Kind::Serve] {
        let name = format!("controller of a {kind:?}, by bytes").to_lowercase();
        let run = |at: Option<usize>, what: &str| {
            // As many bytes each time.
            cut(controllers::command(way), at, what, |socket| kind.outlive(way, socket, 1, what))
        };
        let sent = points.runs(&name, "nobody dies", |what| run(None, what));
        for at in cuts(&sent) {
            points.dies(&name, &format!("behind {at} bytes"), |what| drop(run(Some(at), what)));
        }
    }
}
