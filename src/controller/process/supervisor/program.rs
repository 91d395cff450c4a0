//! A program that is started as an executor.

use std::ffi::CString;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;

use crate::error::Result;
use crate::sys::process::child::{Child, Others};

/// A program with its arguments and its environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    pub(crate) args: Vec<CString>,
    pub(crate) env: Vec<CString>,
    /// The number of its control socket.
    pub(crate) at: i32,
    pub(crate) others: Others,
    /// The executor may have the layout of others, and so be forked by a zygote.
    pub(crate) shares_layout: bool,
}

impl Program {
    /// Starts the program with these arguments and sockets.
    ///
    /// # Errors
    ///
    /// When it cannot be started; the message names it.
    pub(super) fn spawn(&self, args: &[CString], sockets: &[BorrowedFd<'_>]) -> Result<Child> {
        Child::spawn(&self.path, args, &self.env, sockets, self.at, self.others)
    }
}
