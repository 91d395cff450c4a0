//! An executor that listens for a client. Every client may run code in it, so it requires a token at addresses that
//! other machines can reach.

use std::collections::VecDeque;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use crate::deadline::Deadline;
use crate::error::{Error, ErrorKind, Result};
use crate::sys::io::watch::Watch;
use crate::transport::opening::{Channel, accepted, addresses, both_ways, first};
use crate::transport::{Candidate, Judged, Token, VettedPeer};

/// The environment variable that holds the clients' token.
const TOKEN_VARIABLE: &str = "FARCALL_TOKEN";
/// How many clients may be about to send the token. One more ends the oldest of them.
const CANDIDATES_MAX: usize = 64;
/// How long a client may take to send the token.
const TOKEN_TIMEOUT: Duration = Duration::from_secs(5);
/// The maximum size of a token file, including white space.
const TOKEN_FILE_BYTES_MAX: u64 = 4096;

/// Waits up to `timeout` for a client at `address`: `HOST:PORT`, or `:PORT` or `PORT` for this machine only.
///
/// With a token, the first client that sends it is served. Those that send something else, or nothing for [`TOKEN_TIMEOUT`], are
/// disconnected. No client waits for another one.
///
/// # Errors
///
/// If the address cannot be listened at, if other machines can reach it and there is no token, or if the token is
/// invalid. [`ErrorKind::Timeout`] when no client comes in time.
pub(crate) fn accept(
    address: &str,
    token_file: Option<&str>,
    timeout: Duration,
) -> Result<VettedPeer<Channel>> {
    let failed = |error| Error::os(format!("listening at {address}"), error);
    let token = token(token_file)?;
    let addresses = addresses(address)?;
    let outside = addresses.iter().find(|address| !address.ip().is_loopback());
    if let (Some(outside), None) = (outside, &token) {
        return Err(Error::invalid(format!(
            "listening at {outside}: every machine that reaches this address could run code here. Give a token, in \
             {TOKEN_VARIABLE} or with token-file=PATH; or listen at 127.0.0.1 and connect by ssh, which also encrypts"
        )));
    }
    let listener = TcpListener::bind(&addresses[..]).map_err(failed)?;
    // With port 0, this line says which port the system chose.
    eprintln!("listening at {}", listener.local_addr().map_err(failed)?);
    let deadline = Deadline::after(timeout);
    let (found, vetted, who): (_, fn(Channel) -> VettedPeer<Channel>, _) = match &token {
        None => (first(&listener, deadline)?, VettedPeer::unchecked, "no controller has"),
        Some(token) => {
            let found = first_with(token, &listener, deadline)?;
            (found, VettedPeer::checked, "no controller with the token has")
        }
    };
    let socket = found.ok_or_else(|| {
        let seconds = timeout.as_secs();
        Error::new(
            ErrorKind::Timeout,
            format!(
                "{who} connected in {seconds} s, so this executor ends: start it again ahead of the controller, or give it a longer \
                 time by wait-seconds=N"
            ),
        )
    })?;
    both_ways(socket).map(vetted)
}

/// Waits for the first client that sends the token. `None` when none has by the deadline.
fn first_with(
    token: &Token,
    listener: &TcpListener,
    deadline: Deadline,
) -> Result<Option<TcpStream>> {
    let failed = |error| Error::os("accepting a client", error);
    listener.set_nonblocking(true).map_err(failed)?;
    let watch = Watch::new()?;
    watch.add(listener.as_fd(), LISTENER)?;
    let mut last = LISTENER;
    // The oldest first.
    let mut candidates: VecDeque<(u64, Candidate)> = VecDeque::new();
    while !deadline.has_passed() {
        while candidates.front().is_some_and(|(_, oldest)| oldest.deadline().has_passed()) {
            candidates.pop_front();
        }
        let next = candidates.front().map(|(_, oldest)| oldest.deadline());
        let mut ready = watch.wait(next.map_or(deadline, |next| deadline.earlier(next)));
        // The listener is the last one: a client that has sent something goes before the next one.
        ready.sort_unstable_by_key(|number| std::cmp::Reverse(*number));
        for number in ready {
            if number == LISTENER {
                let Some(socket) = accepted(listener).map_err(failed)? else { continue };
                let candidate = Candidate::new(socket, Deadline::after(TOKEN_TIMEOUT))?;
                last += 1;
                watch.add(candidate.as_fd(), last)?;
                if candidates.len() == CANDIDATES_MAX {
                    candidates.pop_front();
                }
                candidates.push_back((last, candidate));
            } else if let Some(at) = candidates.iter().position(|(of, _)| *of == number)
                && let Some((_, candidate)) = candidates.remove(at)
            {
                match token.judge(candidate) {
                    Judged::Token(socket) => {
                        watch.remove(socket.as_fd());
                        return Ok(Some(socket));
                    }
                    Judged::Part(candidate) => candidates.insert(at, (number, candidate)),
                    Judged::Refused => {}
                }
            }
        }
    }
    Ok(None)
}

/// The number of the listener among what is waited for.
const LISTENER: u64 = 0;

/// The token that clients must send, if there is one.
fn token(file: Option<&str>) -> Result<Option<Token>> {
    let (from, text) = match (file, std::env::var_os(TOKEN_VARIABLE)) {
        (Some(path), _) => (path, read(path).map_err(|error| Error::os(path, error))?),
        (None, Some(text)) => (TOKEN_VARIABLE, text.to_string_lossy().into_owned()),
        (None, None) => return Ok(None),
    };
    Token::new(&text).map(Some).map_err(|error| error.during(from))
}

fn read(path: &str) -> std::io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(TOKEN_FILE_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(30);

    #[test]
    fn an_address_that_others_reach_needs_a_token() {
        for address in ["0.0.0.0:0", "[::]:0"] {
            let error = accept(address, None, LONG).expect_err("no token");
            assert!(error.kind() == crate::ErrorKind::InvalidArgument, "{error:?}");
            for words in ["token-file=", TOKEN_VARIABLE, "ssh"] {
                assert!(error.to_string().contains(words), "{error}");
            }
        }
    }

    #[test]
    fn a_file_without_a_token_is_refused() {
        let error = accept("0", Some("/dev/null"), LONG).expect_err("no token");
        assert!(error.to_string().contains("/dev/null: a token of 0 bytes"), "{error}");
        let error = accept("0", Some("/no/such/file"), LONG).expect_err("no file");
        assert!(
            error.raw_os_error() == Some(2) || error.to_string().contains("No such file"),
            "{error}"
        );
    }
}
