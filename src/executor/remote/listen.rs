//! An executor that listens: for whoever may run code in it, so it asks for a token where others than this machine's users
//! could come.

use std::io::{ErrorKind, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::transport::{Connection, Token};

/// The environment variable with the token that clients have to send.
const TOKEN_VARIABLE: &str = "FARCALL_TOKEN";
/// How long a client may take to send it.
const TOKEN_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of a file with a token, the white space around it included.
const TOKEN_FILE_BYTES_MAX: u64 = 4096;

/// Waits for a client at `place`: `HOST:PORT`, or `:PORT` or `PORT` for this machine alone.
///
/// With a token, clients that do not send it are let go of, and the next one is waited for.
///
/// # Errors
///
/// When the place cannot be listened at, is reachable from other machines and there is no token, or the token is none.
pub(crate) fn accept(place: &str, token_file: Option<&str>) -> Result<Connection> {
    let failed = |error| Error::os(format!("listening at {place}"), error);
    let token = token(token_file)?;
    let addresses = addresses(place)?;
    let outside = addresses.iter().find(|address| !address.ip().is_loopback());
    if let (Some(outside), None) = (outside, &token) {
        return Err(Error::invalid(format!(
            "listening at {outside}: whoever reaches that could run code here. Give a token, in {TOKEN_VARIABLE} or with \
             token-file=PATH; or listen at 127.0.0.1 and come by ssh, which also encrypts"
        )));
    }
    let listener = TcpListener::bind(&addresses[..]).map_err(failed)?;
    // Who asked for port 0 learns here which one it is.
    eprintln!("listening at {}", listener.local_addr().map_err(failed)?);
    loop {
        let socket = match listener.accept() {
            Ok((socket, _)) => socket,
            // A client that is gone already.
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(failed(error)),
        };
        if token.as_ref().is_none_or(|token| token.came(&socket, TOKEN_TIMEOUT)) {
            return connect(socket).map_err(|error| error.during(format!("listening at {place}")));
        }
    }
}

fn connect(socket: TcpStream) -> Result<Connection> {
    socket.set_nodelay(true).map_err(|error| Error::os("switching nodelay on", error))?;
    Connection::socket(socket)
}

/// Where to listen.
fn addresses(place: &str) -> Result<Vec<SocketAddr>> {
    let port = place.strip_prefix(':').unwrap_or(place);
    if let Ok(port) = port.parse::<u16>() {
        return Ok(vec![(Ipv4Addr::LOCALHOST, port).into()]);
    }
    let found = place.to_socket_addrs();
    let found = found.map_err(|error| Error::os(format!("listening at {place}"), error))?;
    Ok(found.collect())
}

/// The token that clients have to send, if there is one.
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

    #[test]
    fn a_place_without_a_host_is_this_machine() {
        for place in ["4000", ":4000"] {
            assert_eq!(
                addresses(place).expect("a place"),
                ["127.0.0.1:4000".parse().expect("one")]
            );
        }
        let outside = addresses("0.0.0.0:4000").expect("a place");
        assert_eq!(outside, ["0.0.0.0:4000".parse().expect("one")]);
        assert_eq!(addresses("[::1]:4").expect("a place"), ["[::1]:4".parse().expect("one")]);
        for place in ["", ":", "70000", ":x", "127.0.0.1"] {
            assert!(addresses(place).is_err(), "{place}");
        }
    }

    #[test]
    fn a_place_that_others_reach_is_refused_without_a_token() {
        for place in ["0.0.0.0:0", "[::]:0"] {
            let error = accept(place, None).expect_err("no token");
            assert!(error.is_invalid_argument(), "{error:?}");
            for words in ["token-file=", TOKEN_VARIABLE, "ssh"] {
                assert!(error.to_string().contains(words), "{error}");
            }
        }
    }

    #[test]
    fn a_file_without_a_token_is_refused() {
        let error = accept("0", Some("/dev/null")).expect_err("no token");
        assert!(error.to_string().contains("/dev/null: a token of 0 bytes"), "{error}");
        let error = accept("0", Some("/no/such/file")).expect_err("no file");
        assert!(
            error.raw_os_error() == Some(2) || error.to_string().contains("No such file"),
            "{error}"
        );
    }
}
