//! What is made from the description of the command line: completions for shells, and manual pages.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory};
use clap_mangen::Man;

use crate::Arguments;
use crate::status::{Failure, TOOL};

const NAME: &str = "farcall";

#[derive(clap::Args)]
pub(crate) struct Shell {
    /// The shell whose completions are printed.
    #[arg(value_name = "SHELL")]
    shell: clap_complete::Shell,
}

#[derive(clap::Args)]
pub(crate) struct Folder {
    /// Write farcall.1 and a page for each command here, instead of printing farcall.1. The folder is made if it is missing.
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
}

/// Prints the completions.
pub(crate) fn completions(options: &Shell) -> Result<i32, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(options.shell, &mut Arguments::command(), NAME, &mut text);
    print(&text)
}

/// Prints the page of the whole command, or writes all pages.
pub(crate) fn man(options: &Folder) -> Result<i32, Failure> {
    let mut command = Arguments::command().disable_help_subcommand(true);
    // Names the commands "farcall run" and so on, in their usage lines too.
    command.build();
    let Some(folder) = &options.folder else { return print(&page(command, NAME)?) };
    let failed = |path: &Path, error: io::Error| {
        Failure::new(TOOL, format_args!("{}: {error}", path.display()))
    };
    fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    let commands: Vec<Command> = command.get_subcommands().cloned().collect();
    let pages = commands.into_iter().map(|command| {
        let name = format!("{NAME}-{}", command.get_name());
        (name, command)
    });
    for (name, command) in std::iter::once((NAME.to_owned(), command)).chain(pages) {
        let path = folder.join(format!("{name}.1"));
        fs::write(&path, page(command, &name)?).map_err(|error| failed(&path, error))?;
    }
    Ok(0)
}

/// The manual page of one command, in roff.
fn page(command: Command, name: &str) -> Result<Vec<u8>, Failure> {
    let mut page = Vec::new();
    let man = Man::new(command.version(env!("FARCALL_VERSION"))).title(name);
    man.render(&mut page).map_err(|error| Failure::new(TOOL, error))?;
    Ok(page)
}

fn print(text: &[u8]) -> Result<i32, Failure> {
    let mut out = io::stdout();
    let written = out.write_all(text).and_then(|()| out.flush());
    written.map_err(|error| Failure::new(TOOL, format_args!("standard output: {error}")))?;
    Ok(0)
}
