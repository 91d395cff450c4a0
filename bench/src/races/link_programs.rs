//! Programs to link: the user's, and generated ones of every size.
//!
//! A generated program adds up variables of all its objects, and its exit status is the sum. So a linker that left anything out
//! or bound it wrongly is found out.
//!
//! Invariant: the files of a generated program are in a folder of its own, which is removed with it.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Result, TinyObject};

/// A program to link and run.
#[derive(Debug)]
pub(crate) struct LinkProgram {
    pub(crate) name: String,
    /// Where the files are; the current folder for the user's files.
    pub(crate) folder: PathBuf,
    /// Objects and archives, named from the folder: thousands of long paths would not fit a command line.
    pub(crate) files: Vec<PathBuf>,
    pub(crate) libraries: Vec<String>,
    pub(crate) args: Vec<OsString>,
    /// The exit status that it must have, if that is known.
    pub(crate) status: Option<i32>,
    /// The file whose bytes are most of the image, to compare with a copy of it.
    pub(crate) copied: Option<PathBuf>,
    is_generated: bool,
}

/// The generated programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Generated {
    /// One object with nothing but `main`.
    Empty,
    /// This number of objects, all needed.
    Objects(u32),
    /// One archive with 10^6 symbols, of which ten members are needed.
    Archive,
    /// 200 MB of initialized data.
    Data,
}

impl Generated {
    /// All of them.
    pub(crate) const ALL: [Generated; 8] = [
        Generated::Empty,
        Generated::Objects(10),
        Generated::Objects(100),
        Generated::Objects(1_000),
        Generated::Objects(10_000),
        Generated::Objects(60_000),
        Generated::Archive,
        Generated::Data,
    ];

    /// The name of the program in reports.
    pub(crate) fn name(self) -> String {
        match self {
            Generated::Empty => "empty".to_owned(),
            Generated::Objects(count) => format!("objects-{count}"),
            Generated::Archive => "archive".to_owned(),
            Generated::Data => "data".to_owned(),
        }
    }

    /// Writes the program's files into a new folder for temporary files.
    ///
    /// # Errors
    /// When that cannot be written, or there is no `ar`.
    pub(crate) fn write(self) -> Result<LinkProgram> {
        let name = self.name();
        let folder = format!("farcall-link-{}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        fs::create_dir_all(&folder)?;
        // From here on the folder is removed when this is dropped.
        let mut program = LinkProgram {
            name,
            folder,
            files: Vec::new(),
            libraries: Vec::new(),
            args: Vec::new(),
            status: None,
            copied: None,
            is_generated: true,
        };
        let sum = match self {
            Generated::Empty => program.start("finish")?,
            Generated::Objects(count) => program.objects(count)?,
            Generated::Archive => program.archive()?,
            Generated::Data => program.data()?,
        };
        program.status = Some(sum & STATUS_MAX);
        Ok(program)
    }
}

/// Functions of each generated object, and variables.
const FUNCTIONS: u32 = 10;
/// Members of the archive, and functions of each member.
const MEMBERS: u32 = 1_000;
/// One member in this number is needed.
const MEMBERS_FOR_ONE: u32 = 100;
/// The bytes of initialized data.
const DATA_BYTES: usize = 200_000_000;
/// The largest exit status.
const STATUS_MAX: i32 = 0x7f;

/// `xor edi, edi; jmp first`
const START: &[u8] = &[0x31, 0xff, 0xe9, 0, 0, 0, 0];
/// `mov eax, edi; and eax, 0x7f; ret`
const FINISH: &[u8] = &[0x89, 0xf8, 0x83, 0xe0, 0x7f, 0xc3];
/// `add edi, [rip + variable]; jmp next`
const ADD: &[u8] = &[0x03, 0x3d, 0, 0, 0, 0, 0xe9, 0, 0, 0, 0];
/// `ret`
const RETURN: &[u8] = &[0xc3];

impl LinkProgram {
    /// The program of these files.
    pub(crate) fn of_user(files: &[PathBuf], libraries: &[String], args: &[OsString]) -> Self {
        LinkProgram {
            name: "program".to_owned(),
            folder: PathBuf::from("."),
            files: files.to_vec(),
            libraries: libraries.to_vec(),
            args: args.to_vec(),
            status: None,
            copied: None,
            is_generated: false,
        }
    }

    /// The libraries as flags.
    pub(crate) fn library_flags(&self) -> impl Iterator<Item = String> {
        self.libraries.iter().map(|name| format!("-l{name}"))
    }

    /// The number of generated objects that are linked, `main` apart; `None` for other programs.
    pub(crate) fn generated_objects(&self) -> Option<u32> {
        self.name.strip_prefix("objects-").filter(|_| self.is_generated)?.parse().ok()
    }

    fn add(&mut self, name: String, object: &TinyObject) -> Result<()> {
        fs::write(self.folder.join(&name), object.bytes())?;
        self.files.push(PathBuf::from(name));
        Ok(())
    }

    /// Adds the object with `main`, which goes on at `first`, and with `finish`, which ends it. Returns its part of the sum.
    fn start(&mut self, first: &str) -> Result<i32> {
        let object = TinyObject::new().function("finish", FINISH);
        let object = object.function("main", START).call_at(3, first).unwound();
        self.add("main.o".to_owned(), &object)?;
        Ok(0)
    }

    /// Each function adds its variable and goes on at the next one, also of the next object.
    fn objects(&mut self, count: u32) -> Result<i32> {
        let mut sum = self.start(&function(0, 0))?;
        for number in 0..count {
            let mut object = TinyObject::new();
            for at in 0..FUNCTIONS {
                let value = number % 7 + at;
                sum = (sum + i32::try_from(value)?) & STATUS_MAX;
                object = object.variable(&variable(number, at), &u64::from(value).to_le_bytes());
            }
            for at in 0..FUNCTIONS {
                let next = match (at + 1 == FUNCTIONS, number + 1 == count) {
                    (false, _) => function(number, at + 1),
                    (true, false) => function(number + 1, 0),
                    (true, true) => "finish".to_owned(),
                };
                let added = object.function(&function(number, at), ADD);
                object = added.data_at(2, &variable(number, at)).call_at(7, &next);
            }
            self.add(format!("{number}.o"), &object.unwound())?;
        }
        Ok(sum)
    }

    fn archive(&mut self) -> Result<i32> {
        let mut sum = self.start(&function(0, 0))?;
        let mut members = Vec::new();
        for number in 0..MEMBERS {
            let value = 1 + number % 7;
            let mut object = TinyObject::new();
            object = object.variable(&variable(number, 0), &u64::from(value).to_le_bytes());
            let next = match number + MEMBERS_FOR_ONE {
                next if next < MEMBERS => function(next, 0),
                _ => "finish".to_owned(),
            };
            object = object.function(&function(number, 0), ADD);
            object = object.data_at(2, &variable(number, 0)).call_at(7, &next);
            // The variable is a symbol too.
            for at in 1..MEMBERS - 1 {
                object = object.function(&function(number, at), RETURN);
            }
            if number % MEMBERS_FOR_ONE == 0 {
                sum += i32::try_from(value)?;
            }
            let name = format!("{number}.o");
            fs::write(self.folder.join(&name), object.unwound().bytes())?;
            members.push(name);
        }
        let mut ar = Command::new("ar");
        ar.current_dir(&self.folder).args(["rcs", "all.a"]).args(&members);
        if !ar.status().map_err(|error| format!("ar: {error}"))?.success() {
            return Err(format!("{ar:?} failed").into());
        }
        self.files.push(PathBuf::from("all.a"));
        Ok(sum)
    }

    /// A section of data with a variable behind it, which is added.
    fn data(&mut self) -> Result<i32> {
        const LAST: u8 = 42;
        let sum = self.start("first")?;
        let bytes: Vec<u8> = (0..DATA_BYTES).map(|at| 1 | at.to_le_bytes()[1]).collect();
        let object = TinyObject::new().variable("block", &bytes);
        let object = object.variable("last", &u64::from(LAST).to_le_bytes());
        let object = object.function("first", ADD).data_at(2, "last").call_at(7, "finish");
        self.add("data.o".to_owned(), &object.unwound())?;
        self.copied = Some(self.folder.join("data.o"));
        Ok(sum + i32::from(LAST))
    }
}

impl Drop for LinkProgram {
    fn drop(&mut self) {
        if self.is_generated {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

fn function(object: u32, at: u32) -> String {
    format!("function_{object}_{at}")
}

fn variable(object: u32, at: u32) -> String {
    format!("variable_{object}_{at}")
}

/// The bytes of a program's files.
pub(crate) fn bytes(folder: &Path, files: &[PathBuf]) -> u64 {
    let bytes = |file: &PathBuf| fs::metadata(folder.join(file)).map_or(0, |about| about.len());
    files.iter().map(bytes).sum()
}
