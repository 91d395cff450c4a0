//! Completions for shells, and manual pages, generated from the description of the command line; the C header.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::Arguments;
use crate::output;
use crate::status::{Failure, TOOL};

const NAME: &str = "farcall";
/// The program beside the command.
const EXECUTOR: &str = "farcall-executor";

/// How farcall-executor is started by hand: its arguments, and what it serves then.
const FORMS: [(&str, &str); 6] = [
    (
        "stdio",
        "Serve over standard input and output. Programs then read nothing from standard input, and print on standard error",
    ),
    ("fd=N", "Serve over the descriptor of a stream socket; socket:adopt=N means the same"),
    (
        "fd=READ,WRITE",
        "Serve over these descriptors, to read from and to write to. LLVM's tools say filedescs=READ,WRITE, or READ WRITE as two \
         arguments",
    ),
    ("tcp:connect=HOST:PORT", "Serve a controller that listens there. Nothing is encrypted"),
    (
        "tcp:listen=:PORT [token-file=PATH] [wait-seconds=N]",
        "Serve one TCP connection to this port of this machine. Every user of this machine can connect, unless there is a token. Ends \
         with the status 125 if no controller has connected in that time, 600 seconds by default",
    ),
    (
        "tcp:listen=HOST:PORT token-file=PATH [wait-seconds=N]",
        "Serve one TCP connection to an address that other machines can reach. A client must send the token of the file, or of the \
         environment variable FARCALL_TOKEN, within 5 seconds. Nothing is encrypted",
    ),
];
/// The variables that farcall-executor obeys.
const VARIABLES: [(&str, &str); 2] = [
    (
        "ORC_RT_LOG",
        "What is logged: error, warning (the default), info, debug, or off. A crash is named at every level",
    ),
    (
        "ORC_RT_LOG_OUTPUT",
        "The file at the end of which the log is written, instead of on standard error",
    ),
];
/// The exit codes of farcall-executor.
const EXECUTOR_CODES: &str = "\
  0      the controller has ended the session
  125    the command line is wrong, or the connection cannot be served
The exit code is the program's own, if linked code calls exit.";

#[derive(clap::Args)]
pub(crate) struct Shell {
    /// The shell whose completions are printed.
    #[arg(value_name = "SHELL")]
    shell: clap_complete::Shell,
}

#[derive(clap::Args)]
pub(crate) struct Folder {
    /// Write the pages of farcall, its commands and farcall-executor here, and print none. The folder is made if it is missing.
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

/// Prints the page of farcall, or writes the pages of farcall, all its commands, and farcall-executor.
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
    let write = |name: &str, page: Vec<u8>| {
        let path = folder.join(format!("{name}.1"));
        fs::write(&path, page).map_err(|error| failed(&path, error))
    };
    for (name, command) in std::iter::once((NAME.to_owned(), command)).chain(pages) {
        write(&name, page(command, &name)?)?;
    }
    write(EXECUTOR, page_of_executor()?)?;
    Ok(0)
}

/// The manual page of one command, in roff.
fn page(command: Command, name: &str) -> Result<Vec<u8>, Failure> {
    let exit_codes = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let has_commands = command.has_subcommands();
    let usage = usage(&command);
    let man = titled(command.after_help("").override_usage(usage), name);
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

/// The manual page of farcall-executor.
fn page_of_executor() -> Result<Vec<u8>, Failure> {
    let forms: Vec<String> = FORMS.iter().map(|(form, _)| format!("{EXECUTOR} {form}")).collect();
    let command = Command::new(EXECUTOR)
        .about("Execute code that a controller links or sends")
        .long_about(
            "The executor of controllers whose program is not its own executor, and of LLVM's tools. A controller of this \
             machine starts it by itself. By hand it is started in one of the forms above, such as by ssh on another machine.",
        )
        .override_usage(forms.join("\n"));
    let man = titled(command, EXECUTOR);
    let mut page = Vec::new();
    let mut arguments = Roff::new();
    arguments.control("SH", ["OPTIONS"]);
    for (form, meaning) in FORMS {
        arguments.control("TP", []).text([bold(form)]).text([roman(meaning)]);
    }
    arguments.control("SH", ["ENVIRONMENT"]);
    for (name, meaning) in VARIABLES {
        arguments.control("TP", []).text([bold(name)]).text([roman(meaning)]);
    }
    let render = |page: &mut Vec<u8>| -> io::Result<()> {
        man.render_title(page)?;
        man.render_name_section(page)?;
        man.render_synopsis_section(page)?;
        man.render_description_section(page)?;
        arguments.to_writer(page)?;
        as_lines(EXECUTOR_CODES).to_writer(page)
    };
    render(&mut page).map_err(|error| Failure::new(TOOL, error))?;
    Ok(page)
}

fn titled(command: Command, name: &str) -> Man {
    Man::new(command).title(name).source(concat!("farcall ", env!("FARCALL_VERSION")))
}

/// The line of a synopsis: each option with the name of its value, then the arguments.
fn usage(command: &Command) -> String {
    let mut usage = command.get_bin_name().unwrap_or(NAME).to_owned();
    let (arguments, options): (Vec<&Arg>, Vec<&Arg>) = command
        .get_arguments()
        .filter(|one| !one.is_hide_set())
        .partition(|one| one.is_positional());
    for one in options.iter().chain(&arguments) {
        let flags = [
            one.get_short().map(|letter| format!("-{letter}")),
            one.get_long().map(|name| format!("--{name}")),
        ];
        let takes_values = one.is_positional() || one.get_action().takes_values();
        let values = one.get_value_names().filter(|_| takes_values).unwrap_or_default().join(" ");
        let mut text = flags.into_iter().flatten().collect::<Vec<_>>().join("|");
        if !text.is_empty() && !values.is_empty() {
            text.push(' ');
        }
        text.push_str(&values);
        if one.is_last_set() {
            text.insert_str(0, "-- ");
        }
        if !one.is_required_set() {
            text = format!("[{text}]");
        }
        let is_repeated =
            one.get_num_args().is_some_and(|range| range.max_values() > 1 && one.is_positional());
        if is_repeated || matches!(one.get_action(), ArgAction::Append | ArgAction::Count) {
            text.push_str("...");
        }
        usage = format!("{usage} {text}");
    }
    if command.has_subcommands() {
        usage.push_str(" COMMAND");
    }
    usage
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
