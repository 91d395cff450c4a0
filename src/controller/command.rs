//! An executor behind a command, such as `ssh`, whose standard streams are the connection.

use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::client::Client;
use super::launch::Launch;
use crate::error::{Error, Result};
use crate::transport::Connection;

/// How long a command may take to end once its streams are closed, before it is killed.
const END_PATIENCE: Duration = Duration::from_secs(2);
/// How often it is looked for meanwhile.
const LOOK: Duration = Duration::from_millis(1);

impl Launch {
    /// Starts a command whose standard input and output are a connection to an executor, and waits for that to say what it
    /// is and offers. So executors on other machines are reached: `ssh HOST farcall-executor stdio`.
    ///
    /// What the command prints on standard error, and what code there prints at all, comes where the command's standard error
    /// goes. Dropping the client ends the connection and waits for the command; one that does not end within two seconds is
    /// killed.
    ///
    /// # Errors
    ///
    /// When the command cannot be started, ends before the executor has spoken (with its exit status), or says anything
    /// else.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use std::process::Command;
    ///
    /// use farcall::controller::Launch;
    ///
    /// let mut ssh = Command::new("ssh");
    /// ssh.args(["build-host", "farcall-executor", "stdio"]);
    /// let client = Launch::command(ssh)?;
    /// println!("{}", client.triple());
    /// # Ok::<(), farcall::Error>(())
    /// ```
    pub fn command(mut command: Command) -> Result<Client> {
        let name = command.get_program().to_string_lossy().into_owned();
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let child = child.map_err(|error| Error::os(format!("starting {name}"), error))?;
        let mut started = Started(child);
        let (Some(to), Some(from)) = (started.0.stdin.take(), started.0.stdout.take()) else {
            return Err(Error::invalid(format!("{name} has no pipes")));
        };
        let client = Connection::stream(from, to).and_then(Client::connect);
        match client {
            Ok(client) => Ok(client.behind(started)),
            Err(error) => Err(started.explain(error).during(name)),
        }
    }
}

/// A command that was started. Dropping it waits for its end, and kills it when that does not come.
#[derive(Debug)]
pub(super) struct Started(Child);

impl Started {
    /// True when it has ended within the time.
    fn ends_within(&mut self, patience: Duration) -> bool {
        let begun = Instant::now();
        while let Ok(None) = self.0.try_wait() {
            if begun.elapsed() > patience {
                return false;
            }
            thread::sleep(LOOK);
        }
        true
    }

    /// The error with how the command has ended, when that is why.
    fn explain(&mut self, error: Error) -> Error {
        if !self.ends_within(END_PATIENCE) {
            return error;
        }
        match self.0.try_wait() {
            Ok(Some(status)) => error.and(&Error::disconnected(format!("it ended with {status}"))),
            _ => error,
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if !self.ends_within(END_PATIENCE) {
            // It may end in this very moment.
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}
