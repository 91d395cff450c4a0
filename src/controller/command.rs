//! An executor that a command carries, such as `ssh`: the command's standard streams are the connection.

use std::process::{Command, Stdio};

use super::client::Client;
use super::executor_builder::ExecutorBuilder;
use super::process::command::Started;
use crate::error::{Error, Result};
use crate::transport::Connection;

impl ExecutorBuilder {
    /// Starts a command whose standard input and output are a connection to an executor, and waits for the executor's setup. This
    /// reaches executors on other machines: `ssh HOST farcall-executor stdio`.
    ///
    /// The command's standard error carries its own messages, and all output of code in that executor. Dropping the client ends the
    /// connection and waits for the command to end; after two seconds it kills the command.
    ///
    /// # Errors
    ///
    /// When the command cannot be started, ends before the executor has sent its setup (the error has the exit status), or sends
    /// anything else.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use std::process::Command;
    ///
    /// use farcall::controller::ExecutorBuilder;
    ///
    /// let mut ssh = Command::new("ssh");
    /// ssh.args(["build-host", "farcall-executor", "stdio"]);
    /// let client = ExecutorBuilder::command(ssh)?;
    /// println!("{}", client.triple());
    /// # Ok::<(), farcall::Error>(())
    /// ```
    pub fn command(mut command: Command) -> Result<Client> {
        let name = command.get_program().to_string_lossy().into_owned();
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.map_err(|error| Error::os(format!("starting {name}"), error))?;
        let pipes = (child.stdin.take(), child.stdout.take());
        let mut started = Started::new(child);
        let (Some(to), Some(from)) = pipes else {
            return Err(Error::invalid(format!("{name} has no pipes")));
        };
        let client = Connection::stream(from, to).and_then(Client::connect);
        match client {
            Ok(client) => Ok(client.behind(started)),
            Err(error) => Err(started.explain(error).during(name)),
        }
    }
}
