//! Crashes and hangs: their names, and the files that keep them.

use std::collections::HashSet;
use std::fmt;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};

use farcall::Death;
use nix::sys::signal::Signal;

use crate::target::End;

/// The most faults of a kind that are kept.
const FAULTS_MAX: usize = 1000;
/// The longest name of a file, in bytes; names of C++ functions may be longer.
const NAME_BYTES_MAX: usize = 120;

/// A fault of the target.
#[derive(Debug)]
pub(crate) struct Fault {
    /// The same for all inputs that end in the same kind of death in the same function.
    pub(crate) name: String,
    /// For people: one line, then the linked functions.
    text: String,
    is_hang: bool,
}

impl Fault {
    /// The fault of an execution, if it had one. `edges` tells one hang from another.
    pub(crate) fn of(end: &End, edges: &[u8]) -> Option<Self> {
        match end {
            End::Returned | End::Rejected => None,
            End::Late => {
                let mut passed = DefaultHasher::new();
                edges.iter().for_each(|count| (*count != 0).hash(&mut passed));
                let name = format!("hang-{:016x}", passed.finish());
                Some(Self { name, text: "the time was up\n".to_owned(), is_hang: true })
            }
            End::Died(death) => {
                let mut text = format!("{death}\n");
                for place in &death.backtrace {
                    text.push_str(&format!("  {place}\n"));
                }
                Some(Self { name: name(death), text, is_hang: false })
            }
            End::Failed(error) => {
                let name = format!("error-{:?}", error.kind());
                Some(Self { name, text: format!("{error}\n"), is_hang: false })
            }
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The kind of a death and its function, as a file's name.
fn name(death: &Death) -> String {
    let kind = match (death.signal, death.exit_status) {
        _ if death.limit.is_some() => "limit".to_owned(),
        _ if death.stack_overflow => "stack-overflow".to_owned(),
        (Some(signal), _) => match Signal::try_from(signal) {
            Ok(signal) => signal.as_str().to_owned(),
            Err(_) => format!("signal-{signal}"),
        },
        (None, Some(status)) => format!("exit-{status}"),
        (None, None) => "gone".to_owned(),
    };
    let function = death.backtrace.first().and_then(|place| place.split('+').next());
    let whole = function.map_or_else(|| kind.clone(), |function| format!("{kind}-{function}"));
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let plain: String = whole.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    if plain == whole && plain.len() <= NAME_BYTES_MAX {
        return plain;
    }
    // Two functions have two names.
    let mut hash = DefaultHasher::new();
    whole.hash(&mut hash);
    let start = plain.chars().take(NAME_BYTES_MAX).collect::<String>();
    format!("{start}-{:016x}", hash.finish())
}

/// The faults that are known, and their folders: `crashes` and `hangs`.
#[derive(Debug)]
pub(crate) struct Faults {
    folders: [PathBuf; 2],
    known: [HashSet<String>; 2],
}

impl Faults {
    /// Makes the folders in `out`. Faults that lie there are known.
    pub(crate) fn new(out: &Path) -> io::Result<Self> {
        let folders = ["crashes", "hangs"].map(|name| out.join(name));
        let mut known = [HashSet::new(), HashSet::new()];
        for (folder, known) in folders.iter().zip(&mut known) {
            fs::create_dir_all(folder)?;
            for entry in fs::read_dir(folder)? {
                known.extend(entry?.file_name().into_string());
            }
            known.retain(|name| !name.ends_with(".txt"));
        }
        Ok(Self { folders, known })
    }

    /// The number of crashes that are known.
    pub(crate) fn crashes(&self) -> usize {
        self.known[0].len()
    }

    /// The number of hangs that are known.
    pub(crate) fn hangs(&self) -> usize {
        self.known[1].len()
    }

    /// True when this fault is not known, and there is room for it.
    pub(crate) fn is_new(&self, fault: &Fault) -> bool {
        let known = &self.known[usize::from(fault.is_hang)];
        known.len() < FAULTS_MAX && !known.contains(&fault.name)
    }

    /// Keeps a fault's input under its name, and beside it what is known: also how the input ends in a fresh process.
    pub(crate) fn keep(
        &mut self,
        fault: &Fault,
        input: &[u8],
        again: Option<&Fault>,
    ) -> io::Result<()> {
        let kind = usize::from(fault.is_hang);
        let again = match again {
            Some(again) if again.name == fault.name => "In a fresh process: the same.\n".to_owned(),
            Some(other) => format!("In a fresh process: {}", other.text),
            None => {
                "In a fresh process: no fault; earlier inputs have changed the target's state.\n"
                    .to_owned()
            }
        };
        let path = self.folders[kind].join(&fault.name);
        fs::write(path.with_added_extension("txt"), format!("{}{again}", fault.text))?;
        fs::write(&path, input)?;
        self.known[kind].insert(fault.name.clone());
        Ok(())
    }
}
