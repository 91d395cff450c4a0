//! A session called over a lane in one process, by every name that it offers.

use std::collections::HashMap;
use std::thread;

use super::*;
use crate::ExecutorAddr;
use crate::Prot;
use crate::call::contract::{Action, Remote, Segment};
use crate::call::{Handler, LaneEnd, Lanes, OTHER_NAMES};
use crate::deadline::Deadline;
use crate::executor::entry::wrapper::{Serve, offer};
use crate::shm::Segment as Memory;
use crate::sps::{AllocGroup, Bytes, Decode, Encode, Expected, Status};
use crate::sync::Mutex;
use crate::sync::Ordering;
use crate::sys::futex;
use crate::transport::{Incoming, Payload};
use crate::wire::hello::{Features, Hello};
use crate::wire::layout;

/// The actions that ran, in all tests of this file.
static NOTES: Mutex<Vec<u32>> = Mutex::new(Vec::new());

enum Note {}

impl Remote for Note {
    type Args = (u32,);
    type Ret = ();
    const NAME: &'static str = "note";
}

impl Serve for Note {
    fn serve((number,): (u32,)) -> Result<()> {
        NOTES.lock().push(number);
        Ok(())
    }
}

fn note(number: u32) -> Action {
    (offer::<Note>().1, Bytes(sps::to_bytes(&(number,))))
}

struct NoCalls;

impl Handler<Lane> for NoCalls {
    type Reply = Vec<u8>;

    fn handle(&self, _: u64, _: Payload<'_>, _: Vec<u8>) -> std::result::Result<Vec<u8>, String> {
        Err("no handler is called".to_owned())
    }
}

/// The controller's end of a session.
struct Client {
    end: LaneEnd,
    names: HashMap<String, ExecutorAddr>,
    socket: OwnedFd,
    segment: Arc<Memory>,
}

impl Client {
    fn call<A: Encode, R: for<'a> Decode<'a>>(&mut self, name: &str, args: &A) -> R {
        let (target, args) = (self.names[name].get(), sps::to_bytes(args));
        let result =
            self.end.call(&NoCalls, Deadline::SESSION_END, target, &args, Incoming::to_vec);
        sps::from_bytes(&result.expect("a result")).expect("decodes")
    }

    /// Makes the executor look at the socket.
    fn ring(&self) {
        let doorbell = &self.segment.words()[layout::DOORBELL_WORD];
        doorbell.fetch_add(1, Ordering::Release);
        futex::wake(doorbell);
    }
}

/// Runs `body` against a session; returns the session's outcome.
fn with_session(body: impl FnOnce(&mut Client)) -> Result<()> {
    let bytes = layout::SEGMENT_WORDS as u64 * 8;
    let segment = Arc::new(Memory::create(c"test", bytes, false).expect("memory"));
    let ours = Lane::new(&segment, Side::Controller);
    let (socket, theirs) = socket::pair().expect("a socket");
    let first = Arc::clone(&segment);
    let server = thread::spawn(move || {
        let session = Instance::begin(Some(Acceptor::new(first, Features::OWN)));
        let first = First { stripes: vec![], enforced: Enforced::default(), ahead: None };
        run(session, theirs, first)
    });
    let end = Lanes::new().add(ours).expect("a lane");
    let setup = end.receive_setup(Deadline::SESSION_END).expect("a setup");
    let (_, _, names, _) = sps::from_bytes::<Setup>(&setup).expect("decodes");
    let mut client = Client { end, names: names.into_iter().collect(), socket, segment };
    body(&mut client);
    // As a controller does: a child that another test forks may have the socket open for a moment.
    socket::shut_down(client.socket.as_fd());
    client.ring();
    server.join().expect("no panic")
}

#[test]
fn a_message_that_is_not_due_ends_the_session_by_name() {
    let long = [&b"m"[..], &[0; 2000]].concat();
    for (bytes, files, words) in [
        (&b"?"[..], 0, "the unknown letter '?' (0x3f)"),
        (b"", 0, "an empty message"),
        (b"s1234", 3, "message 's' (0x73, Slab) of 5 bytes, where 9 are due"),
        (&long, 1, "message 'm' (0x6d, Region) of more than 1041 bytes"),
        (b"o12345678", 0, "message 'o' (0x6f, Lane) with 0 descriptors, where 1 are due"),
        (b"n", 2, "message 'n' (0x6e, NoLane) with 2 descriptors"),
        (b"n", 9, "message 'n' (0x6e, NoLane) with more than 8 descriptors"),
        (b"r", 0, "message 'r' (0x72, RequestLane) of an executor came to an executor"),
        (b"k", 2, "message 'k' (0x6b, Fork) of a controller came to an executor"),
        (&ControlMessage::Begin { hello: Hello::OWN }.encode(), 4, "Begin) of a controller"),
    ] {
        let mut said = None;
        let ended = with_session(|client| {
            let socket = client.socket.as_fd();
            socket::send(socket, bytes, &vec![socket; files], Deadline::now()).expect("sent");
            client.ring();
            let soon = Deadline::after(std::time::Duration::from_secs(30));
            said = control::receive(socket, soon).expect("a message");
        });
        let ended = ended.expect_err("refused").to_string();
        let Some(ControlMessage::LastWords { hello, why }) = said.map(|said| said.message) else {
            panic!("no last words")
        };
        assert_eq!(hello, Hello::OWN);
        for text in [ended, why] {
            for words in ["the control socket: ", words, "from one build"] {
                assert!(text.contains(words), "{words}: {text}");
            }
        }
    }
}

#[test]
fn registration() {
    with_session(|client| {
        for (name, others) in OTHER_NAMES {
            for other in *others {
                assert_eq!(client.names.get(*other), client.names.get(*name), "{other}");
            }
            assert!(!client.names[*name].is_null(), "{name}");
        }
    })
    .expect("an orderly end");
}

#[test]
fn the_memory_map_is_the_same_under_all_its_names() {
    let one = |prefix: &'static str, suffix: &'static str, [i, d, r]: [&str; 3]| {
        ["Instance", "reserve", i, d, r].map(|name| {
            let suffix = if name == "Instance" { "" } else { suffix };
            match name {
                "Instance" => format!("{}_{name}", prefix.replace("ci_sps", "ci")),
                _ => format!("{prefix}_{name}{suffix}"),
            }
        })
    };
    let newest = "orc_rt_ci_sps_SimpleNativeMemoryMap";
    let before = "orc_rt_SimpleNativeMemoryMap";
    let llvm22 = "__llvm_orc_SimpleExecutorMemoryManager";
    let multiple = ["initialize", "deinitializeMultiple", "releaseMultiple"];
    let first = ["finalize", "deallocateMultiple", "releaseMultiple"];
    let families = [
        (one(newest, "", multiple), false),
        (one(before, "_sps_wrapper", multiple), false),
        (one(before, "_sps_wrapper", first), false),
        (one(llvm22, "_wrapper", ["initialize", "deinitialize", "release"]), false),
        (one(before, "_sps_wrapper", ["initialize", "deinitialize", "release"]), true),
        (one(before, "_sps_wrapper", ["finalize", "deallocate", "release"]), true),
    ];
    for ([instance, reserve, initialize, deinitialize, release], takes_one) in families {
        with_session(|client| {
            let instance = client.names[&instance];
            let none = client.call::<_, Expected<ExecutorAddr>>(&reserve, &(instance, 100_u64));
            assert!(none.0.expect_err("no page").contains("100 bytes"));
            let slab = client.call::<_, Expected<ExecutorAddr>>(&reserve, &(instance, 65536_u64));
            let slab = slab.0.expect("a slab");
            let segment: Segment =
                (AllocGroup::standard(Prot::Code), slab, 4096, Bytes(b"\xc3".to_vec()));
            let request = (instance, vec![segment], vec![(note(1), note(11)), (note(2), note(12))]);
            let base = client.call::<_, Expected<ExecutorAddr>>(&initialize, &request);
            assert_eq!(base.0.as_ref(), Ok(&slab));
            let again = client.call::<_, Expected<ExecutorAddr>>(&initialize, &request);
            assert!(again.0.expect_err("taken").contains("in use"));
            let mut end = |name: &str| match takes_one {
                true => client.call::<_, Status>(name, &(instance, slab)).0,
                false => client.call::<_, Status>(name, &(instance, vec![slab])).0,
            };
            assert_eq!(end(&deinitialize), Ok(()));
            assert!(end(&deinitialize).expect_err("gone").contains(&slab.to_string()));
            assert_eq!(end(&release), Ok(()));
            assert!(end(&release).expect_err("gone").contains(&slab.to_string()));
            assert_eq!(std::mem::take(&mut *NOTES.lock()), [1, 2, 12, 11]);
        })
        .expect("an orderly end");
    }
}
