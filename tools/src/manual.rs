//! Completions for shells, and manual pages, generated from the description of the command line; the C header.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::Arguments;
use crate::output;
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

/// Prints the C header.
pub(crate) fn header() -> Result<i32, Failure> {
    print(farcall::executor::LINKED_H.as_bytes())
}

/// Prints the completions.
pub(crate) fn completions(options: &Shell) -> Result<i32, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(options.shell, &mut Arguments::command(), NAME, &mut text);
    print(&text)
}

/// Prints the page of farcall, or writes the pages of farcall and all its commands.
pub(crate) fn man(options: &Folder) -> Result<i32, Failure> {
    let mut command = Arguments::command().disable_help_subcommand(true);
    // This also gives the commands their full names, such as "farcall run".
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
    let exit_codes = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let has_commands = command.has_subcommands();
    let source = concat!("farcall ", env!("FARCALL_VERSION"));
    let man = Man::new(command.after_help("")).title(name).source(source);
    let mut page = Vec::new();
    let render = |page: &mut Vec<u8>| -> io::Result<()> {
        man.render_title(page)?;
        man.render_name_section(page)?;
        man.render_synopsis_section(page)?;
        man.render_description_section(page)?;
        man.render_options_section(page)?;
        if has_commands {
            man.render_subcommands_section(page)?;
        }
        as_lines(&exit_codes).to_writer(page)
    };
    render(&mut page).map_err(|error| Failure::new(TOOL, error))?;
    Ok(page)
}

/// A section that keeps its lines.
fn as_lines(text: &str) -> Roff {
    let text = text.strip_prefix("Exit codes:").unwrap_or(text).trim_start_matches('\n');
    let mut section = Roff::new();
    section.control("SH", ["EXIT STATUS"]).control("nf", []);
    for line in text.lines() {
        section.text([roman(line)]);
    }
    section.control("fi", []);
    section
}

fn print(text: &[u8]) -> Result<i32, Failure> {
    output::print(text).map(|()| 0)
}
