//! The token that a client sends ahead of everything else to an executor which listens: it says that the client may.
//!
//! The token is not encrypted on the way: it keeps strangers out, not eavesdroppers.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use subtle::ConstantTimeEq;

use crate::error::{Error, Result};

/// The bytes in front of the token and its length.
const MAGIC: [u8; 8] = *b"fctoken\n";
/// The most bytes of a token.
const TOKEN_BYTES_MAX: usize = 1024;

/// The token that an executor which listens accepts.
pub(crate) struct Token(Vec<u8>);

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

    /// True when the other end sends this token within `timeout`; nothing behind it is read.
    pub(crate) fn came(&self, socket: &TcpStream, timeout: Duration) -> bool {
        let until = Instant::now() + timeout;
        let mut head = [0; MAGIC.len() + 8];
        if !read(socket, &mut head, until) {
            return false;
        }
        let (magic, length) = head.split_at(MAGIC.len());
        let length = length.try_into().map_or(u64::MAX, u64::from_le_bytes);
        let Ok(length @ 1..=TOKEN_BYTES_MAX) = usize::try_from(length) else { return false };
        let mut token = vec![0; length];
        // The time that this takes does not depend on where the first difference is.
        magic == MAGIC && read(socket, &mut token, until) && bool::from(token.ct_eq(&self.0))
    }
}

/// Reads all of `bytes`, unless the time or the connection ends before.
fn read(mut socket: &TcpStream, mut bytes: &mut [u8], until: Instant) -> bool {
    while !bytes.is_empty() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || socket.set_read_timeout(Some(left)).is_err() {
            return false;
        }
        match socket.read(bytes) {
            Ok(0) => return false,
            Ok(count) => bytes = &mut bytes[count..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
    socket.set_read_timeout(None).is_ok()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    const SHORT: Duration = Duration::from_millis(50);

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let ours = TcpStream::connect(address).expect("a listener");
        (ours, listener.accept().expect("a client").0)
    }

    fn token(text: &str) -> Token {
        Token::new(text).expect("a token")
    }

    #[test]
    fn a_token_is_taken_and_nothing_behind_it() {
        let (mut ours, mut theirs) = pair();
        token(" secret words\n").send(&ours).expect("sent");
        ours.write_all(b"next").expect("sent");
        assert!(token("secret words").came(&theirs, Duration::from_secs(10)));
        let mut next = [0; 4];
        theirs.read_exact(&mut next).expect("what is behind");
        assert_eq!(&next, b"next");
        assert_eq!(theirs.read_timeout().expect("a timeout"), None);
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
            assert!(!token("secret").came(&theirs, Duration::from_secs(10)), "{sent:?}");
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
        assert!(!token("secret").came(&theirs, SHORT));
        assert!(begun.elapsed() >= SHORT, "{:?}", begun.elapsed());
        drop(trickle.join().expect("no panic"));
    }
}
