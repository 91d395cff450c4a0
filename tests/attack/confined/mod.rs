//! Deeds of linked code outside of its process, at each level of confinement, and resources that it uses up.
//!
//! The tables in src/docs/trust.md are what this code measures: `TABLE_REWRITE=1` writes them.

mod bombs;
mod descendants;
mod page;
mod processes;
mod siblings;
mod works;

use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use farcall::controller::Confinement;
use farcall::controller::confinement::{ConfinementLevel, Enforced};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::apart::Apart;
use crate::session::{Session, bytes, launch};

const LEVELS: [ConfinementLevel; 3] =
    [ConfinementLevel::Default, ConfinementLevel::Isolated, ConfinementLevel::Strict];
/// How long a process may take to end that is being ended.
const ENDS: Duration = Duration::from_secs(10);

/// A number of the controller's, which linked code is after.
static KEPT: AtomicU64 = AtomicU64::new(7);

/// The needs of an attack beside its name.
#[derive(Debug, Clone, Copy)]
enum Needs {
    Nothing,
    Address,
    TcpPort,
    UdpPort,
    /// It answers with the number of a process.
    Process,
}

const ATTACKS: [(&str, &str, Needs); 34] = [
    ("write the controller's memory (`process_vm_writev`)", "write_memory", Needs::Address),
    ("write it through `/proc/PID/mem`", "write_memory_file", Needs::Address),
    ("read it (`process_vm_readv`)", "read_memory", Needs::Address),
    ("trace the controller (`ptrace`)", "trace_controller", Needs::Nothing),
    ("signal the controller", "signal_controller", Needs::Nothing),
    ("take a descriptor of the controller", "take_controllers_descriptor", Needs::Nothing),
    ("leave a process that has left session and parent", "daemonize", Needs::Process),
    ("run a program", "run_program", Needs::Nothing),
    ("connect over TCP", "connect_tcp", Needs::TcpPort),
    ("bind a TCP port", "bind_tcp", Needs::Nothing),
    ("connect over MPTCP", "connect_mptcp", Needs::TcpPort),
    ("bind an MPTCP port", "bind_mptcp", Needs::Nothing),
    ("connect by the first bytes (`MSG_FASTOPEN`)", "connect_fast", Needs::TcpPort),
    ("listen at a TCP port that the kernel chooses", "listen_unbound", Needs::Nothing),
    ("make a socket of a virtual machine (`AF_VSOCK`)", "socket_vsock", Needs::Nothing),
    ("make a socket of the kernel's (`AF_NETLINK`)", "socket_netlink", Needs::Nothing),
    ("make a socket of packets (`AF_PACKET`)", "socket_packet", Needs::Nothing),
    ("have system calls made by `io_uring`", "setup_uring", Needs::Nothing),
    ("send over UDP", "send_udp", Needs::UdpPort),
    ("connect to an abstract Unix socket", "connect_abstract", Needs::Nothing),
    ("connect to a Unix socket with a path", "connect_path", Needs::Nothing),
    ("create a file", "create_file", Needs::Nothing),
    ("open a file to write", "overwrite_file", Needs::Nothing),
    ("truncate a file", "truncate_file", Needs::Nothing),
    ("remove a file", "remove_file", Needs::Nothing),
    ("rename a file", "rename_file", Needs::Nothing),
    ("make a folder", "make_folder", Needs::Nothing),
    ("change a file's mode", "change_mode", Needs::Nothing),
    ("read a file of the user's", "read_file", Needs::Nothing),
    ("share memory with any process (`shmget`)", "share_memory", Needs::Nothing),
    ("make a user namespace", "new_namespace", Needs::Nothing),
    // A5
    ("make a child of the controller's (`CLONE_PARENT`)", "child_of_controller", Needs::Nothing),
    ("raise a limit that the controller lowered", "raise_limit", Needs::Nothing),
    ("outlive the controller", "outlive_controller", Needs::Nothing),
];

/// The files and sockets that attacks are after.
#[derive(Debug)]
struct Targets {
    folder: tempfile::TempDir,
    tcp: TcpListener,
    udp: UdpSocket,
    _sockets: [UnixListener; 2],
}

impl Targets {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["kept", "removed", "moved"] {
            fs::write(folder.path().join(name), "contents").expect("written");
        }
        let name = format!("farcall-attack-{}", std::process::id());
        let name = SocketAddr::from_abstract_name(name).expect("a name");
        let sockets = [
            UnixListener::bind_addr(&name).expect("a socket"),
            UnixListener::bind(folder.path().join("socket")).expect("a socket"),
        ];
        let local = "127.0.0.1:0";
        let (tcp, udp) = (TcpListener::bind(local), UdpSocket::bind(local));
        Self { folder, tcp: tcp.expect("a port"), udp: udp.expect("a port"), _sockets: sockets }
    }

    fn numbers(&self, needs: Needs) -> Vec<u64> {
        let port = match needs {
            Needs::Address => return vec![KEPT.as_ptr().expose_provenance() as u64],
            Needs::TcpPort => self.tcp.local_addr(),
            Needs::UdpPort => self.udp.local_addr(),
            Needs::Nothing | Needs::Process => return Vec::new(),
        };
        vec![u64::from(port.expect("an address").port())]
    }

    /// The names and contents of the files.
    fn files(&self) -> Vec<(PathBuf, String)> {
        let entries = fs::read_dir(self.folder.path()).expect("a folder").flatten();
        let mut files: Vec<_> = entries
            .map(|entry| (entry.path(), fs::read_to_string(entry.path()).unwrap_or_default()))
            .collect();
        files.sort();
        files
    }
}

fn confinement(level: ConfinementLevel) -> Confinement {
    match level {
        ConfinementLevel::Isolated => Confinement::isolated(),
        ConfinementLevel::Strict => Confinement::strict(),
        _ => Confinement::new(),
    }
}

/// A session with the attacks, confined as far as the kernel can.
fn start(confinement: Confinement) -> Arc<Session> {
    let launch = launch().confine(confinement.allow_missing());
    Arc::new(Session::try_start(&launch, "confined").expect("an executor"))
}

/// True when this kernel has every restriction. On others the pages' tables say too much.
fn is_whole(enforced: Enforced) -> bool {
    let missing: Vec<_> = enforced.missing().collect();
    if !missing.is_empty() {
        println!("attack: not compared with the page: {enforced}");
    }
    missing.is_empty()
}

fn is_alive(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, fields)| !fields.starts_with(['Z', 'X']))
}

/// True when the process ends in time.
fn ends(pid: Pid) -> bool {
    let deadline = Instant::now() + ENDS;
    while is_alive(pid) {
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

/// The outcome of each attack at this level, from a session.
fn measured(level: ConfinementLevel, session: Arc<Session>) -> Option<Vec<String>> {
    let targets = Targets::new();
    if !is_whole(session.process.confinement()) {
        return None;
    }
    let folder = targets.folder.path().to_str().expect("a path").as_bytes().to_vec();
    let set = session.function("set_folder");
    session.process.call(set, &folder).expect("set");
    let (files, kept) = (targets.files(), KEPT.load(Ordering::SeqCst));
    let mut daemon = None;
    let mut outcomes: Vec<String> = ATTACKS
        .iter()
        .map(|(_, function, needs)| {
            let answer = session.call(function, &targets.numbers(*needs)).expect("an answer");
            if matches!(needs, Needs::Process) {
                daemon = i32::try_from(answer).ok().filter(|pid| *pid > 0).map(Pid::from_raw);
                return "refused".to_owned();
            }
            match i32::try_from(answer).expect("an error number") {
                0 => "succeeds".to_owned(),
                error => format!("{:?}", Errno::from_raw(error)),
            }
        })
        .collect();
    if level != ConfinementLevel::Default {
        assert_eq!(KEPT.load(Ordering::SeqCst), kept, "{level}: the controller's memory");
        assert_eq!(targets.files(), files, "{level}: files");
    }
    if let Some(daemon) = daemon {
        assert!(is_alive(daemon), "{level}: the attack has failed");
        drop(session);
        let at = ATTACKS.iter().position(|(_, name, _)| *name == "daemonize").expect("listed");
        outcomes[at] = match level {
            ConfinementLevel::Default => {
                kill(daemon, Signal::SIGKILL).expect("a process that lives on");
                "succeeds".to_owned()
            }
            _ => {
                assert!(ends(daemon), "{level}: process {daemon} lives on");
                "ends with the executor".to_owned()
            }
        };
    }
    Some(outcomes)
}

fn table() -> Option<Vec<String>> {
    let outcomes = |level| {
        let started = measured(level, start(confinement(level)))?;
        let ([_first, forked, _other], _) = siblings::start(level, "confined");
        assert_eq!(measured(level, Arc::new(forked))?, started, "{level}: a forked executor");
        Some(started)
    };
    let columns: Option<Vec<Vec<String>>> = LEVELS.into_iter().map(outcomes).collect();
    let names: Vec<&str> = ATTACKS.iter().map(|(what, ..)| *what).collect();
    Some(page::table("linked code wants to", &names, &columns?))
}

#[test]
fn the_table_of_trust_is_what_becomes_of_each_attack() {
    Apart::within(120).run(|| {
        if let Some(measured) = table() {
            page::compare("attacks", &measured);
        }
    });
}

/// A3: not only the ways to the network that have a name.
#[test]
fn an_isolated_executor_makes_sockets_of_unix_and_udp_only() {
    Apart::within(60).run(|| {
        for level in [ConfinementLevel::Isolated, ConfinementLevel::Strict] {
            let session = start(confinement(level));
            assert_eq!(session.call("other_sockets", NONE).expect("an answer"), 0, "{level}");
            let refused = session.call("flag_fast", NONE).expect("an answer");
            assert_eq!(refused, 3, "{level}: calls that begin a connection by what they send");
            // The same calls have other numbers in the form x32.
            let error = session.call("call_by_x32", NONE).expect("an answer");
            let error = Errno::from_raw(i32::try_from(error).expect("a number"));
            assert!(
                error == Errno::EPERM || std::env::consts::ARCH != "x86_64",
                "{level}: {error}"
            );
        }
    });
}

#[test]
fn code_types_nothing_into_the_terminal_and_does_not_take_it() {
    Apart::within(60).run(|| {
        for level in LEVELS {
            let session = start(confinement(level));
            for attack in ["type_into_terminal", "take_terminal"] {
                let error = session.call(attack, NONE).expect("an answer");
                let error = Errno::from_raw(i32::try_from(error).expect("a number"));
                let expected =
                    if level == ConfinementLevel::Default { Errno::ENOTTY } else { Errno::EPERM };
                assert_eq!(error, expected, "{level}: {attack}");
            }
        }
    });
}

/// Numbers for a call of [`Session::call`] that needs none.
const NONE: &[u64] = &[];

/// A call whose executor dies: the death's message.
fn death(confinement: Confinement, function: &str) -> String {
    let session = start(confinement);
    let error = session.process.call(session.function(function), &bytes(NONE));
    error.expect_err("the executor dies").to_string()
}
