//! The token that a client sends ahead of everything else to an executor which listens: it says that the client may.
//!
//! The token is not encrypted on the way: it keeps strangers out, not eavesdroppers.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};

use subtle::ConstantTimeEq;

use crate::deadline::Deadline;
use crate::error::{Error, Result};

/// The bytes in front of the token and its length.
const MAGIC: [u8; 8] = *b"fctoken\n";
/// The most bytes of a token.
const TOKEN_BYTES_MAX: usize = 1024;

/// The bytes in front of the token.
const HEAD_BYTES: usize = MAGIC.len() + 8;

/// The token that an executor which listens accepts.
pub(crate) struct Token(Vec<u8>);

/// A client that has not sent the whole token.
#[derive(Debug)]
pub(crate) struct Candidate {
    socket: TcpStream,
    /// When it is refused.
    deadline: Deadline,
    /// What it has sent, no more than the token with its head.
    sent: Vec<u8>,
}

/// What a client has sent.
#[derive(Debug)]
pub(crate) enum Judged {
    /// The token; nothing behind it was read.
    Token(TcpStream),
    /// A part of it.
    Part(Candidate),
    /// Something else, or not all of it in time.
    Refused,
}

impl Token {
    /// The token that a text is, without white space around it.
    ///
    /// # Errors
    ///
    /// When the text is empty or too long.
    pub(crate) fn new(text: &str) -> Result<Self> {
        let text = text.trim();
        if text.is_empty() || text.len() > TOKEN_BYTES_MAX {
            return Err(Error::invalid(format!(
                "a token of {} bytes: it has 1 to {TOKEN_BYTES_MAX}",
                text.len()
            )));
        }
        Ok(Self(text.as_bytes().to_vec()))
    }

    /// Sends the token.
    ///
    /// # Errors
    ///
    /// When the other end is gone.
    pub(crate) fn send(&self, mut socket: &TcpStream) -> Result<()> {
        let length = (self.0.len() as u64).to_le_bytes();
        let bytes = [&MAGIC[..], &length, &self.0].concat();
        socket.write_all(&bytes).map_err(|error| Error::os("sending the token", error))
    }

    /// Reads what a client has sent of the token. Never waits.
    pub(crate) fn judge(&self, mut candidate: Candidate) -> Judged {
        loop {
            let Some(missing) = candidate.missing() else { return Judged::Refused };
            if missing == 0 {
                // The time that this takes does not depend on where the first difference is.
                let is_token = bool::from(candidate.sent[HEAD_BYTES..].ct_eq(&self.0));
                let socket = candidate.socket;
                return match is_token && socket.set_nonblocking(false).is_ok() {
                    true => Judged::Token(socket),
                    false => Judged::Refused,
                };
            }
            if candidate.deadline.has_passed() {
                return Judged::Refused;
            }
            let mut piece = [0; 256];
            let most = missing.min(piece.len());
            match candidate.socket.read(&mut piece[..most]) {
                Ok(0) => return Judged::Refused,
                Ok(count) => candidate.sent.extend_from_slice(&piece[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return Judged::Part(candidate);
                }
                Err(_) => return Judged::Refused,
            }
        }
    }
}

impl Candidate {
    /// A client that has sent nothing so far, and is refused at the deadline.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub(crate) fn new(socket: TcpStream, deadline: Deadline) -> Result<Self> {
        let failed = |error| Error::os("waiting for a token", error);
        socket.set_nonblocking(true).map_err(failed)?;
        Ok(Self { socket, deadline, sent: Vec::new() })
    }

    pub(crate) fn deadline(&self) -> Deadline {
        self.deadline
    }

    /// How many bytes must come; `None` when what has come is no token.
    fn missing(&self) -> Option<usize> {
        let Some((head, token)) = self.sent.split_at_checked(HEAD_BYTES) else {
            return Some(HEAD_BYTES - self.sent.len());
        };
        let (magic, length) = head.split_at(MAGIC.len());
        let length = length.try_into().map_or(u64::MAX, u64::from_le_bytes);
        let length = usize::try_from(length).ok().filter(|length| *length <= TOKEN_BYTES_MAX)?;
        (magic == MAGIC && length > 0).then(|| length - token.len())
    }
}

impl AsFd for Candidate {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;

    const SHORT: Duration = Duration::from_millis(50);

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let ours = TcpStream::connect(address).expect("a listener");
        (ours, listener.accept().expect("a client").0)
    }

    /// The socket of a client that sends this token within `timeout`.
    fn came(token: &Token, socket: TcpStream, timeout: Duration) -> Option<TcpStream> {
        let candidate = Candidate::new(socket, Deadline::after(timeout)).expect("a socket");
        let mut judged = token.judge(candidate);
        loop {
            match judged {
                Judged::Token(socket) => return Some(socket),
                Judged::Refused => return None,
                Judged::Part(candidate) => {
                    thread::sleep(Duration::from_millis(1));
                    judged = token.judge(candidate);
                }
            }
        }
    }

    fn token(text: &str) -> Token {
        Token::new(text).expect("a token")
    }

    #[test]
    fn a_token_is_taken_and_nothing_behind_it() {
        let (mut ours, theirs) = pair();
        token(" secret words\n").send(&ours).expect("sent");
        ours.write_all(b"next").expect("sent");
        let mut theirs =
            came(&token("secret words"), theirs, Duration::from_secs(10)).expect("the token");
        let mut next = [0; 4];
        theirs.read_exact(&mut next).expect("what is behind");
        assert_eq!(&next, b"next");
    }

    #[test]
    fn other_tokens_and_other_bytes_are_refused() {
        let frame = |length: u64, text: &[u8]| [&MAGIC[..], &length.to_le_bytes(), text].concat();
        for sent in [
            frame(6, b"sEcret"),
            frame(5, b"secre"),
            frame(7, b"secrets"),
            frame(0, b""),
            frame(u64::MAX, b"secret"),
            frame(TOKEN_BYTES_MAX as u64 + 1, &[b'x'; TOKEN_BYTES_MAX + 1]),
            b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
            b"fctoken\n".to_vec(),
            Vec::new(),
        ] {
            let (mut ours, theirs) = pair();
            ours.write_all(&sent).expect("sent");
            drop(ours);
            let came = came(&token("secret"), theirs, Duration::from_secs(10));
            assert!(came.is_none(), "{sent:?}");
        }
        for text in ["", " \n", &"x".repeat(TOKEN_BYTES_MAX + 1)] {
            assert!(
                Token::new(text)
                    .is_err_and(|error| error.kind() == crate::ErrorKind::InvalidArgument),
                "{text}"
            );
        }
    }

    #[test]
    fn half_a_token_is_waited_for_no_longer_than_the_time() {
        let (mut ours, theirs) = pair();
        let begun = Instant::now();
        let trickle = thread::spawn(move || {
            // A slow trickle of bytes does not extend the time.
            for byte in MAGIC {
                thread::sleep(SHORT / 4);
                if ours.write_all(&[byte]).is_err() {
                    break;
                }
            }
            ours
        });
        assert!(came(&token("secret"), theirs, SHORT).is_none());
        assert!(begun.elapsed() >= SHORT, "{:?}", begun.elapsed());
        drop(trickle.join().expect("no panic"));
    }
}
