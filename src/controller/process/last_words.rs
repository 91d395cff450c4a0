//! Last words: the message of an executor that ends by itself. It also prints them on its standard error, which may be discarded.

use std::path::Path;

use super::lane_opener::LaneOpener;
use crate::error::Error;

/// The environment variable that names the executor's program.
pub(crate) const PROGRAM_VARIABLE: &str = "FARCALL_EXECUTOR";

/// Adds to an error that ends the session how the executor broke the protocol, or its last words, if there is either.
pub(crate) fn add(error: Error, opener: &LaneOpener) -> Error {
    if !error.is_disconnected() {
        return error;
    }
    let words = last_words(&error, opener);
    match (opener.violation(), words) {
        (Some(violation), _) => violation.with_death_of(&error),
        (None, Some(words)) => error.and(&words),
        (None, None) => error,
    }
}

/// As [`add`], for an executor that was not ready yet and runs `program`. The message says if the environment variable names it.
pub(crate) fn add_before_ready(error: Error, opener: &LaneOpener, program: &Path) -> Error {
    let error = explained(error, opener, program);
    match std::env::var_os(PROGRAM_VARIABLE) {
        Some(named) if named == program => {
            error.during(format_args!("{PROGRAM_VARIABLE}={}", program.display()))
        }
        _ => error,
    }
}

fn explained(error: Error, opener: &LaneOpener, program: &Path) -> Error {
    let program = program.display();
    let is_silent = last_words(&error, opener).is_none() && opener.violation().is_none();
    match error.death().is_some() {
        true if is_silent => error.during(format_args!(
            "{program} ended before it spoke, and is perhaps no farcall executor of this version: that is \
             farcall-executor, or a program whose main calls run_if_spawned"
        )),
        true => add(error, opener).during(format_args!("{program} ended before it was ready")),
        false => add(error, opener),
    }
}

fn last_words(error: &Error, opener: &LaneOpener) -> Option<Error> {
    let (hello, words) = opener.last_words(error.death().is_some())?;
    // Those of another version may have any form.
    let refusal = hello.check("it", "this controller").err();
    Some(refusal.unwrap_or_else(|| Error::remote(format!("it said: {words}"))))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::{AsFd, OwnedFd};

    use super::*;
    use crate::deadline::Deadline;
    use crate::error::{Death, ErrorKind};
    use crate::sys::io::socket;
    use crate::transport::lane::segment;
    use crate::transport::{PollPolicy, control};
    use crate::wire::control::ControlMessage;
    use crate::wire::hello::Features;
    use crate::wire::layout::VERSION;

    fn death() -> Error {
        let mut death = Death::default();
        death.exit_status = Some(125);
        Error::died(death)
    }

    fn opener() -> (LaneOpener, OwnedFd) {
        let (ours, theirs) = socket::pair().expect("sockets");
        (LaneOpener::new(ours, PollPolicy::default()), theirs)
    }

    /// The error with the last words of an executor that has sent these bytes.
    fn added(sent: &[u8]) -> String {
        let (opener, theirs) = opener();
        std::fs::File::from(theirs).write_all(sent).expect("sent");
        let text = add(death(), &opener).to_string();
        assert_eq!(add(death(), &opener).to_string(), text, "said once more");
        text
    }

    fn message(version: u64, text: &[u8]) -> Vec<u8> {
        let features = Features::OWN.bits().to_le_bytes();
        [b"w", &version.to_le_bytes()[..], &features, text].concat()
    }

    #[test]
    fn words_of_this_version_follow_the_status() {
        let text = added(&message(VERSION, b"no memory"));
        assert_eq!(text, "executor exited with status 125; it said: no memory");
    }

    #[test]
    fn another_version_is_named_with_this_one() {
        let text = added(&message(VERSION + 7, b"no"));
        for words in
            [format!("is of version {}", VERSION + 7), format!("controller of version {VERSION}")]
        {
            assert!(text.contains(&words), "{text}");
        }
    }

    #[test]
    fn malformed_or_long_words_do_no_harm() {
        assert_eq!(added(b""), "executor exited with status 125");
        let text = added(&message(VERSION, b"\x1b[2J\nfake: line\xff\x00"));
        assert_eq!(text, "executor exited with status 125; it said:  [2J fake: line\u{fffd} ");
        for (sent, letter) in [
            (&b"?12345678no"[..], "the unknown letter '?' (0x3f)"),
            (b"w1234", "message 'w' (0x77, LastWords) of 5 bytes"),
            (&message(VERSION, &[b'x'; 100_000]), "'w' (0x77, LastWords) of more than 1041 bytes"),
            (b"s12345678", "message 's' (0x73, Slab) of a controller"),
            (b"r", "message 'r' (0x72, RequestLane) of an executor"),
        ] {
            let text = added(sent);
            for words in [letter, "from one build", "; executor exited with status 125"] {
                assert!(text.contains(words), "{words}: {text}");
            }
            assert!(text.len() < 3000, "{text}");
        }
    }

    #[test]
    fn an_executor_that_breaks_the_protocol_is_not_heard_again() {
        let (opener, theirs) = opener();
        let send = |bytes: &[u8]| {
            socket::send(theirs.as_fd(), bytes, &[], Deadline::now()).expect("sent");
        };
        send(b"w");
        send(b"?");
        assert!(!opener.answer());
        let gone = || Error::disconnected("the peer is gone");
        for error in [death(), gone()] {
            let has_died = error.death().is_some();
            let error = add(error, &opener);
            assert_eq!(error.kind(), ErrorKind::Violation);
            assert_eq!(error.death().is_some(), has_died);
            assert!(error.to_string().contains("'w' (0x77"), "the first one counts: {error}");
        }
        let late = Error::timeout("no answer yet");
        assert_eq!(add(late, &opener).to_string(), "no answer yet");
    }

    #[test]
    fn the_controller_does_not_wait_for_last_words() {
        let (opener, theirs) = opener();
        assert_eq!(add(death(), &opener).to_string(), death().to_string());
        let error = add_before_ready(death(), &opener, Path::new("/bin/false"));
        assert!(error.death().is_some(), "{error:?}");
        for words in ["/bin/false", "status 125", "before it spoke", "perhaps no farcall executor"]
        {
            assert!(error.to_string().contains(words), "{error}");
        }
        let refused = ControlMessage::Refused { number: 7, why: "no memory".to_owned() };
        control::send(theirs.as_fd(), &refused, &[], Deadline::now()).expect("sent");
        control::send_last_words(theirs.as_fd(), &Error::invalid("behind another"));
        assert!(add(death(), &opener).to_string().ends_with("behind another"));
    }

    #[test]
    fn words_behind_a_request_for_a_lane_are_heard() {
        let (opener, theirs) = opener();
        let (segment, file) = segment::create(PollPolicy::default()).expect("memory");
        opener.begin(&segment, &[file.as_fd(); 4], Deadline::now()).expect("sent");
        let request = ControlMessage::RequestLane;
        control::send(theirs.as_fd(), &request, &[], Deadline::now()).expect("sent");
        control::send_last_words(theirs.as_fd(), &Error::invalid("no memory"));
        opener.end_all();
        let text = add(death(), &opener).to_string();
        assert!(text.ends_with("it said: no memory"), "{text}");
    }
}
