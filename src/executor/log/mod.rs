//! The executor's log: lines on standard error, or in a file. LLVM's runtime has the same variables:
//!
//! | variable | says |
//! |---|---|
//! | `ORC_RT_LOG` | the last level that is written, of `error`, `warning` (the default), `info` and `debug`; `off` writes none |
//! | `ORC_RT_LOG_OUTPUT` | the file at whose end the lines are written |
//!
//! Both are read once, when the process begins its first session. The file is open before the process is confined.
//!
//! A line is written at once, by one system call, and without memory of the heap: a panic is logged where memory has run out. No
//! line is written on the path of a call. A crash is named on standard error at every level, since a signal handler writes it.

use std::cell::Cell;
use std::fmt;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::OnceLock;

use crate::sys::environment;

const LEVEL_VARIABLE: &str = "ORC_RT_LOG";
const OUTPUT_VARIABLE: &str = "ORC_RT_LOG_OUTPUT";

/// The part of a line that is written at once. Longer lines are written in parts.
const LINE_BYTES: usize = 1024;

/// How much a line matters, the most first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// Of no line.
    Off,
    Error,
    Warning,
    Info,
    Debug,
}

impl Level {
    const ALL: [Self; 5] = [Self::Off, Self::Error, Self::Warning, Self::Info, Self::Debug];

    fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Info => "info",
            Self::Debug => "debug",
        }
    }

    /// The level of this name, in small letters or capitals.
    fn named(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.name().eq_ignore_ascii_case(text))
    }
}

#[derive(Debug)]
struct Log {
    last: Level,
    /// Where lines go, if not to standard error.
    file: Option<File>,
}

static LOG: OnceLock<Log> = OnceLock::new();

thread_local! {
    static IS_SILENT: Cell<bool> = const { Cell::new(false) };
}

impl Log {
    fn from_environment() -> Self {
        let text = environment::variable(LEVEL_VARIABLE);
        let text = text.as_ref().map(|text| text.to_string_lossy());
        let named = text.as_ref().map(|text| Level::named(text));
        let mut log = Self { last: named.flatten().unwrap_or(Level::Warning), file: None };
        if let (Some(text), Some(None)) = (text, named) {
            log.write(
                Level::Error,
                format_args!(
                    "{LEVEL_VARIABLE}={text} names no level: error, warning, info, debug or off; \
                     errors and warnings are logged"
                ),
            );
        }
        let path = environment::variable(OUTPUT_VARIABLE).filter(|_| log.last != Level::Off);
        if let Some(path) = path {
            match File::options().append(true).create(true).open(&path) {
                Ok(file) => log.file = Some(file),
                Err(error) => log.write(
                    Level::Error,
                    format_args!(
                        "{OUTPUT_VARIABLE}={}: {error}; the log goes to standard error",
                        path.display()
                    ),
                ),
            }
        }
        log
    }

    fn write(&self, level: Level, message: fmt::Arguments<'_>) {
        if level > self.last {
            return;
        }
        match &self.file {
            Some(file) => write_line(&mut &*file, level, message),
            None => write_line(&mut std::io::stderr().lock(), level, message),
        }
    }
}

/// Reads the environment, and opens the file. Call it before the process is confined, and before it may be forked.
pub(crate) fn start() {
    LOG.get_or_init(Log::from_environment);
}

/// Logs a line.
#[cold]
pub(crate) fn write(level: Level, message: fmt::Arguments<'_>) {
    if !IS_SILENT.try_with(Cell::get).unwrap_or(false) {
        LOG.get_or_init(Log::from_environment).write(level, message);
    }
}

/// Logs nothing more on this thread. For a thread with a table of descriptors of its own, in which the log's number may be
/// another file.
pub(crate) fn silence_thread() {
    IS_SILENT.set(true);
}

/// The number of the file, which is open in forked children as well.
pub(crate) fn descriptor() -> Option<RawFd> {
    LOG.get()?.file.as_ref().map(AsRawFd::as_raw_fd)
}

/// A line that is put together on the stack.
struct Line<'o> {
    output: &'o mut dyn Write,
    bytes: [u8; LINE_BYTES],
    used: usize,
}

impl Line<'_> {
    /// Writes all bytes so far. A failure has no place where it could be reported.
    fn flush(&mut self) {
        let _ = self.output.write_all(&self.bytes[..self.used]);
        self.used = 0;
    }
}

impl fmt::Write for Line<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            let room = &mut self.bytes[self.used..];
            let (now, later) = rest.split_at(rest.len().min(room.len()));
            room[..now.len()].copy_from_slice(now);
            self.used += now.len();
            rest = later;
            if self.used == LINE_BYTES {
                self.flush();
            }
        }
        Ok(())
    }
}

fn write_line(output: &mut dyn Write, level: Level, message: fmt::Arguments<'_>) {
    let mut line = Line { output, bytes: [0; LINE_BYTES], used: 0 };
    // An error needs no word for its level.
    let (word, colon) = if level == Level::Error { ("", "") } else { (level.name(), ": ") };
    let _ = fmt::Write::write_fmt(
        &mut line,
        format_args!("farcall executor: {word}{colon}{message}\n"),
    );
    line.flush();
}

#[cfg(test)]
mod tests {
    use super::*;

    // LoggingTest

    #[test]
    fn level_get_name() {
        let names = Level::ALL.map(Level::name);
        assert_eq!(names, ["off", "error", "warning", "info", "debug"]);
    }

    #[test]
    fn level_parse() {
        assert_eq!(Level::named("INFO"), Some(Level::Info));
        assert_eq!(Level::named("WaRnInG"), Some(Level::Warning));
        for text in ["", "inf", "infox", "bogus", "none"] {
            assert_eq!(Level::named(text), None, "{text}");
        }
    }

    #[test]
    fn level_parse_get_name_round_trip() {
        for level in Level::ALL {
            assert_eq!(Level::named(level.name()), Some(level));
        }
    }

    #[test]
    fn a_long_line_is_written_whole() {
        for length in [0, 1, LINE_BYTES - 1, LINE_BYTES, 5 * LINE_BYTES] {
            let (mut output, text) = (Vec::new(), "x".repeat(length));
            write_line(&mut output, Level::Warning, format_args!("{text}"));
            let expected = format!("farcall executor: warning: {text}\n");
            assert_eq!(String::from_utf8_lossy(&output), expected);
        }
    }
}
