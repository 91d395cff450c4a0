//! The table of programs: their initializers, finalizers and exit handlers.
//!
//! A session may have 10^5 programs. So each function takes O(log n) steps for each entry that it returns or removes.
//!
//! Invariant: the first `initialized` registrations of a program are those whose initializers have run and whose finalizers have
//! not. The table holds their finalizers.

use std::collections::BTreeMap;

use crate::{AddrRange, ExecutorAddr};

/// The programs of a process, by their handles.
#[derive(Debug)]
pub(super) struct Programs {
    programs: BTreeMap<ExecutorAddr, Program>,
    /// The end of each piece of code and its program, by the start of the code.
    code: BTreeMap<ExecutorAddr, (ExecutorAddr, ExecutorAddr)>,
    handlers: Newest<Handler>,
    finalizers: Newest<AddrRange>,
}

#[derive(Debug, Default)]
struct Program {
    /// In order of registration.
    registrations: Vec<Registration>,
    initialized: usize,
}

/// A part of a program: what one link registers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Registration {
    pub(super) code: AddrRange,
    pub(super) initializers: AddrRange,
    pub(super) finalizers: AddrRange,
}

/// An exit handler.
#[derive(Debug, Clone, Copy)]
pub(super) struct Handler {
    pub(super) function: ExecutorAddr,
    pub(super) argument: usize,
    /// The exit status precedes its argument (`on_exit`).
    pub(super) wants_status: bool,
}

/// Entries that programs own, in order of their arrival.
#[derive(Debug)]
struct Newest<T> {
    /// How many have arrived.
    number: u64,
    /// By owner and number.
    entries: BTreeMap<(ExecutorAddr, u64), T>,
    /// The owner of each number.
    owners: BTreeMap<u64, ExecutorAddr>,
}

impl Programs {
    pub(super) const fn new() -> Self {
        Self {
            programs: BTreeMap::new(),
            code: BTreeMap::new(),
            handlers: Newest::new(),
            finalizers: Newest::new(),
        }
    }

    /// Adds a part to the program with this handle.
    pub(super) fn register(&mut self, handle: ExecutorAddr, part: Registration) {
        self.programs.entry(handle).or_default().registrations.push(part);
        if part.code.bytes() > 0 {
            self.code.insert(part.code.start, (part.code.end, handle));
        }
    }

    /// Removes a program with all that it has registered.
    pub(super) fn remove(&mut self, handle: ExecutorAddr) {
        self.abandon(handle);
        for part in self.programs.remove(&handle).unwrap_or_default().registrations {
            self.code.remove(&part.code.start);
        }
    }

    /// The program that owns what is registered with `handle`: the one with that handle, or else the one whose code has the
    /// function.
    pub(super) fn owner(&self, handle: ExecutorAddr, function: ExecutorAddr) -> ExecutorAddr {
        if self.programs.contains_key(&handle) {
            return handle;
        }
        let code = self.code.range(..=function).next_back();
        code.filter(|(_, (end, _))| function < *end).map_or(handle, |(_, (_, program))| *program)
    }

    /// Marks the next part of a program as initialized, and returns its initializers. The outer option is `None` if there is no
    /// such program, the inner one if all its parts are initialized.
    pub(super) fn initialize(&mut self, handle: ExecutorAddr) -> Option<Option<AddrRange>> {
        let program = self.programs.get_mut(&handle)?;
        let Some(part) = program.registrations.get(program.initialized) else { return Some(None) };
        program.initialized += 1;
        self.finalizers.push(handle, part.finalizers);
        Some(Some(part.initializers))
    }

    /// Adds an exit handler of a program; of none if the handle is null.
    pub(super) fn add_handler(&mut self, handle: ExecutorAddr, handler: Handler) {
        self.handlers.push(handle, handler);
    }

    /// Removes the newest exit handler of a program, or of all, and returns it.
    pub(super) fn take_handler(&mut self, handle: Option<ExecutorAddr>) -> Option<Handler> {
        self.handlers.pop(handle).map(|(_, handler)| handler)
    }

    /// Marks the part of a program, or of all, that was initialized last as not initialized. Returns its finalizers.
    pub(super) fn finalize(&mut self, handle: Option<ExecutorAddr>) -> Option<AddrRange> {
        let (handle, finalizers) = self.finalizers.pop(handle)?;
        if let Some(program) = self.programs.get_mut(&handle) {
            program.initialized -= 1;
        }
        Some(finalizers)
    }

    /// Discards the exit handlers and finalizers that a run of a program has left.
    pub(super) fn abandon(&mut self, handle: ExecutorAddr) {
        self.handlers.discard(handle);
        self.finalizers.discard(handle);
        if let Some(program) = self.programs.get_mut(&handle) {
            program.initialized = 0;
        }
    }
}

impl<T> Newest<T> {
    const fn new() -> Self {
        Self { number: 0, entries: BTreeMap::new(), owners: BTreeMap::new() }
    }

    fn push(&mut self, owner: ExecutorAddr, entry: T) {
        self.entries.insert((owner, self.number), entry);
        self.owners.insert(self.number, owner);
        self.number += 1;
    }

    /// Removes the newest entry, of one owner or of all.
    fn pop(&mut self, owner: Option<ExecutorAddr>) -> Option<(ExecutorAddr, T)> {
        let key = match owner {
            Some(owner) => *self.entries.range((owner, 0)..=(owner, u64::MAX)).next_back()?.0,
            None => self.owners.last_key_value().map(|(number, owner)| (*owner, *number))?,
        };
        self.owners.remove(&key.1);
        self.entries.remove(&key).map(|entry| (key.0, entry))
    }

    fn discard(&mut self, owner: ExecutorAddr) {
        while self.pop(Some(owner)).is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn range(start: u64, bytes: u64) -> AddrRange {
        AddrRange::sized(ExecutorAddr::new(start), bytes).expect("no overflow")
    }

    fn part(number: u64) -> Registration {
        let at = |kind| range(0x10_0000 * number + kind, 0x100);
        Registration { code: at(0), initializers: at(0x1000), finalizers: at(0x2000) }
    }

    /// The same table as lists that every function walks through.
    #[derive(Default)]
    struct Model {
        parts: Vec<(ExecutorAddr, Registration)>,
        /// How many parts of each program are initialized, by its number.
        initialized: [usize; 8],
        handlers: Vec<(ExecutorAddr, usize)>,
        finalizers: Vec<(ExecutorAddr, AddrRange)>,
    }

    fn pop<T>(
        list: &mut Vec<(ExecutorAddr, T)>,
        wanted: Option<ExecutorAddr>,
    ) -> Option<(ExecutorAddr, T)> {
        let at = list.iter().rposition(|(one, _)| wanted.is_none_or(|wanted| wanted == *one))?;
        Some(list.remove(at))
    }

    impl Model {
        fn parts_of(&self, handle: ExecutorAddr) -> Vec<Registration> {
            let own = self.parts.iter().filter(|(one, _)| *one == handle);
            own.map(|(_, part)| *part).collect()
        }

        fn initialize(
            &mut self,
            handle: ExecutorAddr,
            program: usize,
        ) -> Option<Option<AddrRange>> {
            let parts = self.parts_of(handle);
            if parts.is_empty() {
                return None;
            }
            let Some(next) = parts.get(self.initialized[program]) else { return Some(None) };
            self.initialized[program] += 1;
            self.finalizers.push((handle, next.finalizers));
            Some(Some(next.initializers))
        }

        fn abandon(&mut self, handle: ExecutorAddr, program: usize) {
            self.handlers.retain(|(one, _)| *one != handle);
            self.finalizers.retain(|(one, _)| *one != handle);
            self.initialized[program] = 0;
        }
    }

    #[test]
    fn random_programs_are_as_in_a_list() {
        let mut random = Random::new(3);
        let (mut table, mut model) = (Programs::new(), Model::default());
        let handles = [0, 1, 2, 3, 4, 5, 6, 7].map(|number| ExecutorAddr::new(0x10 * number));
        for number in 1..20_000 {
            let program = random.index(handles.len());
            let handle = handles[program];
            let wanted = (!random.one_in(4)).then_some(handle);
            match random.below(20) {
                0..4 => {
                    table.register(handle, part(number));
                    model.parts.push((handle, part(number)));
                }
                4..8 => assert_eq!(table.initialize(handle), model.initialize(handle, program)),
                8..11 => {
                    let (function, argument) = (handle, random.index(100));
                    table.add_handler(handle, Handler { function, argument, wants_status: false });
                    model.handlers.push((handle, argument));
                }
                11..13 => {
                    let taken = table.take_handler(wanted).map(|one| (one.function, one.argument));
                    assert_eq!(taken, pop(&mut model.handlers, wanted));
                }
                13..15 => {
                    let expected = pop(&mut model.finalizers, wanted);
                    if let Some((owner, _)) = expected {
                        let owner = handles.iter().position(|one| *one == owner).expect("known");
                        model.initialized[owner] -= 1;
                    }
                    assert_eq!(table.finalize(wanted), expected.map(|(_, range)| range));
                }
                15 => {
                    table.abandon(handle);
                    model.abandon(handle, program);
                }
                16 => {
                    table.remove(handle);
                    model.abandon(handle, program);
                    model.parts.retain(|(one, _)| *one != handle);
                }
                _ => {
                    let code = 0x10_0000 * number.saturating_sub(random.below(20));
                    let function = ExecutorAddr::new(code + random.below(0x200));
                    let by_code = || {
                        let mut parts = model.parts.iter();
                        parts.find(|(_, part)| part.code.contains(function)).map(|(one, _)| *one)
                    };
                    let unknown = ExecutorAddr::new(0x999);
                    let expected = by_code().unwrap_or(unknown);
                    assert_eq!(table.owner(unknown, function), expected);
                    if !model.parts_of(handle).is_empty() {
                        assert_eq!(table.owner(handle, function), handle);
                    }
                }
            }
        }
        assert!(model.parts.len() > 10, "{} parts are left", model.parts.len());
        handles.into_iter().for_each(|handle| table.remove(handle));
        assert!(table.programs.is_empty() && table.code.is_empty(), "{table:?}");
        assert!(table.handlers.owners.is_empty() && table.finalizers.entries.is_empty());
    }
}
