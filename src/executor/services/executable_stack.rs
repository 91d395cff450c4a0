//! Executable stacks, on request: code of nested functions of GNU C lies on the stack.

use crate::call::contract::StackExecutable;
use crate::error::Result;
use crate::executor::entry::wrapper::Serve;
use crate::sys::process::stack;

impl Serve for StackExecutable {
    fn serve((): ()) -> Result<()> {
        stack::make_executable()
    }
}
