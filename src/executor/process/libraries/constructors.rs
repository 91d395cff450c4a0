//! The time of a program's shared libraries between their loading and their constructors.
//!
//! The dynamic linker runs constructors before `dlopen` returns. So a library is loaded as the dependency of a *gate*: an object
//! whose constructor runs before all others of the same `dlopen` (`DF_1_INITFIRST`).
//!
//! - A program's own libraries are opened before its image is there, which their constructors use natively. So the gate's
//!   constructor empties the lists of constructors and destructors in the dynamic sections of the files that have come with it. The
//!   executor restores the lists, and calls the constructors, before the initializers of the program.
//! - Libraries that the program opens later are bound to its names at the gate.
//!
//! Invariant: a library's destructors run only if its constructors have.
#![allow(unsafe_code, reason = "changes dynamic sections, and calls constructors by address")]

use std::collections::VecDeque;
use std::ffi::c_void;

use super::name_library;
use crate::ExecutorAddr;
use crate::error::Result;
use crate::executor::entry::address::pointer;
use crate::executor::process::loaded::{self, Dyn, LoadedFile};
use crate::sync::Mutex;

const DT_NEEDED: u64 = 1;
const DT_INIT: u64 = 12;
const DT_FINI: u64 = 13;
const DT_SONAME: u64 = 14;
const DT_INIT_ARRAY: u64 = 25;
const DT_INIT_ARRAYSZ: u64 = 27;
const DT_FINI_ARRAYSZ: u64 = 28;

/// A library whose constructors wait.
struct Waiting {
    base: u64,
    /// The names by which others need it.
    names: Vec<Vec<u8>>,
    needed: Vec<Vec<u8>>,
    /// The words that were changed, and their old values.
    words: Vec<(u64, u64)>,
    constructors: Constructors,
}

/// The single constructor of a file, and its list of constructors: address and bytes.
#[derive(Default)]
struct Constructors {
    single: Option<u64>,
    list: Option<(u64, u64)>,
}

struct State {
    is_holding: bool,
    waiting: Vec<Waiting>,
}

static STATE: Mutex<State> = Mutex::new(State { is_holding: false, waiting: Vec::new() });

/// From now on the constructors of libraries wait, until the program begins.
pub(crate) fn hold() {
    STATE.lock().is_holding = true;
}

/// True until the program begins.
pub(super) fn is_holding() -> bool {
    STATE.lock().is_holding
}

/// The address of the constructor of a gate, if the constructors of the library that is loaded next have to wait.
pub(crate) fn gate() -> Option<u64> {
    is_holding().then(|| address(shut))
}

/// The address of a gate's constructor.
pub(super) fn address(constructor: extern "C" fn()) -> u64 {
    (constructor as *const c_void).expose_provenance() as u64
}

/// The constructor of gates where constructors wait. The dynamic linker calls it, on the thread that has called `dlopen`. That
/// thread has the dynamic linker's lock, so no file is unloaded meanwhile.
extern "C" fn shut() {
    let files = loaded::files().0;
    let mut state = STATE.lock();
    for file in behind_gate(&files) {
        // A library whose dynamic section cannot be changed keeps its constructors, which run now.
        if let Some(waiting) = Waiting::new(file)
            && let Ok(words) = file.set_words(&waiting.emptied())
        {
            state.waiting.push(Waiting { words, ..waiting });
        }
    }
}

/// The files that have come with the last gate. Files are in the order in which they were loaded.
pub(super) fn behind_gate(files: &[LoadedFile]) -> &[LoadedFile] {
    // Only a gate has a constructor in the file of this code, apart from that file.
    let is_own = |file: &LoadedFile| file.contains(address(shut));
    let Some(own) = files.iter().find(|file| is_own(file)) else { return &[] };
    let is_gate = |file: &LoadedFile| {
        let functions = Constructors::of(file).functions();
        functions.iter().any(|function| own.contains(*function)) && !is_own(file)
    };
    let gate = files.iter().rposition(is_gate);
    gate.and_then(|gate| files.get(gate + 1..)).unwrap_or_default()
}

/// In the place of a single constructor that waits.
extern "C" fn nothing() {}

/// Runs the constructors that wait by `call`. A library's constructors run before the constructors of libraries that need it.
///
/// Natively the process ends where a constructor does not return. Here the call may be unwound. Then the other constructors of that
/// library do not run, as after a `dlopen` that an exception leaves. Constructors of other libraries go on waiting, up to the next call.
///
/// # Errors
///
/// The first error of `call`. If a library needs names that the program does not have.
pub(crate) fn run(mut call: impl FnMut(ExecutorAddr) -> Result<()>) -> Result<()> {
    let waiting = {
        let mut state = STATE.lock();
        state.is_holding = false;
        std::mem::take(&mut state.waiting)
    };
    if waiting.is_empty() {
        return Ok(());
    }
    let order = in_order(&waiting);
    let mut waiting: Vec<_> = waiting.into_iter().map(Some).collect();
    let mut ordered: VecDeque<_> =
        order.into_iter().filter_map(|index| waiting[index].take()).collect();
    let mut ran = match name_library::were_announced() {
        true => loaded::with_files(|files, _| name_library::require_addresses(files)),
        false => Ok(()),
    };
    while ran.is_ok()
        && let Some(one) = ordered.pop_front()
    {
        ran = one.run(&mut call);
    }
    // The last one is the first in this order again.
    STATE.lock().waiting.extend(ordered.into_iter().rev());
    ran
}

impl Waiting {
    /// The constructors and destructors that a file loaded behind a gate has to wait with, if there are any.
    fn new(file: &LoadedFile) -> Option<Self> {
        let text = |offset| file.text(offset).to_bytes().to_vec();
        let path = file.path().to_bytes();
        let short = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default().to_vec();
        let needed = |(_, [tag, value]): (u64, Dyn)| (tag == DT_NEEDED).then(|| text(value));
        let own = value_of(file, DT_SONAME).map(text);
        let words = changed(file);
        (!words.is_empty()).then(|| Self {
            base: file.base(),
            names: own.into_iter().chain([short, path.to_vec()]).collect(),
            needed: file.dynamic_entries().filter_map(needed).collect(),
            words,
            constructors: Constructors::of(file),
        })
    }

    /// Restores the lists, and runs the constructors; nothing if the file was unloaded.
    fn run(&self, call: &mut impl FnMut(ExecutorAddr) -> Result<()>) -> Result<()> {
        let restored = loaded::with_files(|files, _| {
            let file = files.iter().find(|file| file.base() == self.base)?;
            Some(file.set_words(&self.words))
        });
        let Some(restored) = restored else { return Ok(()) };
        restored?;
        self.constructors.functions().into_iter().map(ExecutorAddr::new).try_for_each(call)
    }

    /// The changed words, with values for no constructors and no destructors.
    fn emptied(&self) -> Vec<(u64, u64)> {
        let nothing = address(nothing).wrapping_sub(self.base);
        // An entry's value is behind its tag.
        let tag = |value_at: u64| {
            // SAFETY: the dynamic section of a loaded file is mapped.
            unsafe { *pointer::<u64>(ExecutorAddr::new(value_at - 8)) }
        };
        let empty = |at: u64| if matches!(tag(at), DT_INIT | DT_FINI) { nothing } else { 0 };
        self.words.iter().map(|(at, _)| (*at, empty(*at))).collect()
    }
}

impl Constructors {
    fn of(file: &LoadedFile) -> Self {
        let at = |offset: u64| file.base().wrapping_add(offset);
        let list = value_of(file, DT_INIT_ARRAY).map(at);
        Self {
            single: value_of(file, DT_INIT).map(at),
            list: list.zip(value_of(file, DT_INIT_ARRAYSZ)),
        }
    }

    /// The constructors, in order.
    fn functions(&self) -> Vec<u64> {
        let (start, bytes) = self.list.unwrap_or_default();
        let list = (0..bytes / 8).map(|index| {
            // SAFETY: the list of a loaded file is mapped, and the dynamic linker has relocated it.
            unsafe { *pointer::<u64>(ExecutorAddr::new(start + 8 * index)) }
        });
        self.single.into_iter().chain(list).filter(|one| !matches!(*one, 0 | u64::MAX)).collect()
    }
}

/// The value of the first entry of this kind in a file's dynamic section.
fn value_of(file: &LoadedFile, wanted: u64) -> Option<u64> {
    let mut entries = file.dynamic_entries();
    entries.find_map(|(_, [tag, value])| (tag == wanted).then_some(value))
}

/// The words of a dynamic section that name constructors and destructors, and their values.
fn changed(file: &LoadedFile) -> Vec<(u64, u64)> {
    let is_changed = |tag| matches!(tag, DT_INIT | DT_FINI | DT_INIT_ARRAYSZ | DT_FINI_ARRAYSZ);
    let entries = file.dynamic_entries().filter(|(_, [tag, _])| is_changed(*tag));
    entries.map(|(at, [_, value])| (at + 8, value)).collect()
}

/// The order in which the dynamic linker runs constructors: what a library needs first, else the last loaded one first.
fn in_order(waiting: &[Waiting]) -> Vec<usize> {
    let mut order = Vec::with_capacity(waiting.len());
    let mut is_visited = vec![false; waiting.len()];
    // Libraries under way, and how many of their needs were followed.
    let mut stack = Vec::new();
    for last in (0..waiting.len()).rev() {
        if !std::mem::replace(&mut is_visited[last], true) {
            stack.push((last, 0));
        }
        while let Some((index, followed)) = stack.last_mut() {
            let Some(needed) = waiting[*index].needed.get(*followed) else {
                order.push(*index);
                stack.pop();
                continue;
            };
            *followed += 1;
            let next = waiting.iter().position(|other| other.names.contains(needed));
            if let Some(next) = next.filter(|next| !std::mem::replace(&mut is_visited[*next], true))
            {
                stack.push((next, 0));
            }
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;

    fn waiting(name: &CStr, needed: &[&CStr]) -> Waiting {
        let bytes = |name: &CStr| name.to_bytes().to_vec();
        Waiting {
            base: 0,
            names: vec![bytes(name)],
            needed: needed.iter().map(|name| bytes(name)).collect(),
            words: Vec::new(),
            constructors: Constructors::default(),
        }
    }

    #[test]
    fn the_needs_of_a_library_come_before_it() {
        let order = |libraries: &[Waiting]| {
            let names =
                in_order(libraries).into_iter().map(|index| libraries[index].names[0].clone());
            names.map(|name| String::from_utf8(name).expect("text")).collect::<Vec<_>>().join(" ")
        };
        let apart = [waiting(c"a", &[]), waiting(c"b", &[])];
        assert_eq!(order(&apart), "b a");
        let chain = [waiting(c"a", &[c"c", c"b"]), waiting(c"b", &[]), waiting(c"c", &[c"b"])];
        assert_eq!(order(&chain), "b c a");
        let circle = [waiting(c"a", &[c"b"]), waiting(c"b", &[c"a", c"libc.so.6"])];
        assert_eq!(order(&circle), "a b");
    }
}
