//! Last words: the message of an executor that ends by itself. It also prints them on its standard error, which may be discarded.

use std::path::Path;

use super::lane_opener::LaneOpener;
use crate::error::Error;
use crate::wire::layout::VERSION;

/// The environment variable that names the executor's program.
pub(crate) const PROGRAM_VARIABLE: &str = "FARCALL_EXECUTOR";

/// Adds the executor's last words to an error that reports its death, if it sent any.
pub(crate) fn add(error: Error, opener: &LaneOpener) -> Error {
    match last_words(&error, opener) {
        Some(words) => error.and(&words),
        None => error,
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
    match last_words(&error, opener) {
        Some(words) => {
            error.and(&words).during(format_args!("{program} ended before it was ready"))
        }
        None if error.death().is_some() => error.during(format_args!(
            "{program} ended before it spoke, and is perhaps no farcall executor of this version: that is \
             farcall-executor, or a program whose main calls run_if_spawned"
        )),
        None => error,
    }
}

fn last_words(error: &Error, opener: &LaneOpener) -> Option<Error> {
    error.death()?;
    let (version, words) = opener.last_words()?;
    let words = format!("it said: {words}");
    Some(Error::remote(match version {
        VERSION => words,
        other => format!(
            "it is of version {other}, and this controller of version {VERSION}: both must be of one build; {words}"
        ),
    }))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::{AsFd, OwnedFd};
    use std::time::Duration;

    use super::*;
    use crate::call::contract::LAST_WORDS;
    use crate::error::Death;
    use crate::sys::io::socket;

    fn death() -> Error {
        Error::died(Death { exit_status: Some(125), ..Death::default() })
    }

    fn opener() -> (LaneOpener, OwnedFd) {
        let (ours, theirs) = socket::pair().expect("sockets");
        (LaneOpener::new(ours, Duration::ZERO), theirs)
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
        [&[LAST_WORDS][..], &version.to_le_bytes(), text].concat()
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
        for sent in [&b""[..], b"y12345678no"] {
            assert_eq!(added(sent), "executor exited with status 125");
        }
        let text = added(&message(VERSION, b"\x1b[2J\nfake: line\xff\x00"));
        assert_eq!(text, "executor exited with status 125; it said:  [2J fake: line\u{fffd} ");
        assert!(added(&message(VERSION, &[b'x'; 100_000])).len() < 3000);
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
        socket::tell(theirs.as_fd(), b'r', 0, "").expect("sent");
        socket::tell(theirs.as_fd(), LAST_WORDS, VERSION, "behind another").expect("sent");
        assert!(add(death(), &opener).to_string().ends_with("behind another"));
    }
}
