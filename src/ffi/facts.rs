//! Facts about a death or an interruption, as C reads them.

use std::ffi::{CStr, CString, c_char};

use super::text::c_text;

/// How the value of a fact is told.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FactKind {
    /// Without a value: it is so.
    Flag = 0,
    /// number
    Number = 1,
    /// text
    Text = 2,
    /// list: several texts.
    List = 3,
}

/// A fact about the death of an executor's process, or about an interrupted call.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Fact {
    /// The name, such as "signal".
    pub name: *const c_char,
    /// A farcall_fact_kind.
    pub kind: u32,
    /// The number or the address.
    pub number: u64,
    /// The text; NULL for other kinds.
    pub text: *const c_char,
    /// The texts, ended by NULL; NULL for other kinds.
    pub list: *const *const c_char,
}

/// The facts of an error, with the texts that they point to.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub(super) given: Vec<Fact>,
    _texts: Vec<CString>,
    _lists: Vec<Vec<*const c_char>>,
}

// SAFETY: the pointers lead to the texts and lists here, which nothing changes.
unsafe impl Send for Facts {}
// SAFETY: as above.
unsafe impl Sync for Facts {}

impl Facts {
    pub(super) fn new(error: &farcall::Error) -> Self {
        let (mut given, mut texts, mut lists) = (Vec::new(), Vec::new(), Vec::new());
        let mut keep = |text: &str| {
            let text = c_text(text);
            let pointer = text.as_ptr();
            texts.push(text);
            pointer
        };
        for (name, value) in error.facts() {
            let null = std::ptr::null();
            let mut fact =
                Fact { name: keep(name), kind: 0, number: 0, text: null, list: std::ptr::null() };
            let kind = match value {
                farcall::Fact::Flag => FactKind::Flag,
                farcall::Fact::Number(number) => {
                    fact.number = number;
                    FactKind::Number
                }
                farcall::Fact::Text(text) => {
                    fact.text = keep(text);
                    FactKind::Text
                }
                farcall::Fact::List(list) => {
                    let mut list: Vec<_> = list.iter().map(|text| keep(text)).collect();
                    list.push(null);
                    fact.list = list.as_ptr();
                    lists.push(list);
                    FactKind::List
                }
            };
            fact.kind = kind as u32;
            given.push(fact);
        }
        Self { given, _texts: texts, _lists: lists }
    }

    pub(super) fn find(&self, name: &CStr) -> Option<&Fact> {
        // SAFETY: each name is a text that lives as long as this.
        self.given.iter().find(|fact| unsafe { CStr::from_ptr(fact.name) } == name)
    }
}
