//! farcall's executor over a Unix stream, as the server of a row: it serves until the caller ends the connection.
//!
//! Invariant: all of a connection is one call of the row.

use farcall::Connection;

use crate::Result;
use crate::processes::server::{Server, Service};

/// Descriptor: a Unix stream.
pub(crate) const SERVICE: Service = Service {
    name: "executor",
    make: |parts| {
        let [socket] = parts.descriptors()?;
        Ok(Box::new(ExecutorServer(Some(Connection::socket(socket)?))))
    },
};

/// The executor at the other end of the stream.
#[derive(Debug)]
struct ExecutorServer(Option<Connection>);

impl Server for ExecutorServer {
    fn serve(&mut self, _: u32) -> Result<()> {
        let connection = self.0.take().ok_or("the connection is over")?;
        Ok(farcall::executor::serve(connection)?)
    }
}
