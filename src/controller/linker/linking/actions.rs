//! The actions that register an image in its executor, and take it back.
//!
//! Invariant: an action that registers comes with its opposite, unless all that it changes is in the image's memory.

use super::HANDLE;
use crate::call::contract::{
    Action, FramesDeregister, FramesRegister, IndirectResolve, ProgramDeregister, ProgramRegister,
    Remote, ThreadBlockDeregister, ThreadBlockRegister, ThreadInitialize,
};
use crate::controller::memory::peer::Peer;
use crate::error::Result;
use crate::link::{Image, TlsBlock};
use crate::sps::{self, Bytes};
use crate::{AddrRange, ExecutorAddr};

/// The call of a function of the contract, as an action.
///
/// # Errors
///
/// When the executor does not offer it.
pub(crate) fn action<R: Remote>(peer: &dyn Peer, args: &R::Args) -> Result<Action> {
    Ok((peer.function::<R>()?, Bytes(sps::to_bytes(args))))
}

/// The actions that register the image's unwind information, thread-locals and initializers, as far as the image has
/// or requires them. Each comes with the action that deregisters it. `exits` is true if its code registers exit handlers.
/// `handle` is that of the program that the image belongs to; null if it is the first that needs one, which sets it.
///
/// # Errors
///
/// When the executor does not offer one of them.
pub(crate) fn of_image(
    peer: &dyn Peer,
    image: &Image,
    code: AddrRange,
    exits: bool,
    handle: &mut ExecutorAddr,
) -> Result<Vec<(Action, Action)>> {
    let mut actions: Vec<(Action, Action)> = Vec::new();
    if let Some(section) = image.eh_frame {
        let register = action::<FramesRegister>(peer, &(section,))?;
        actions.push((register, action::<FramesDeregister>(peer, &(section,))?));
    }
    if let Some(threads) = image.threads {
        actions.push(of_threads(peer, &threads)?);
    }
    if !image.ifuncs.is_empty() {
        let functions = image.ifuncs.iter().map(|one| (one.slot, one.resolver)).collect();
        actions.push((action::<IndirectResolve>(peer, &(functions,))?, Action::default()));
    }
    let named = image.symbols.address_of(HANDLE);
    if let Some(address) = named {
        *handle = address;
    }
    // Exit handlers of earlier links may call this one. They must run before its TLS blocks are freed: the removal of a
    // program of the dylib runs them.
    let has_blocks = image.threads.is_some_and(|threads| threads.module.is_some());
    let has_code = code.bytes() > 0;
    let may_be_called_at_exit = has_blocks && has_code;
    // Code that names the handle may pass it on, although nothing else here needs it.
    if named.is_some()
        || image.init.is_some()
        || image.fini.is_some()
        || exits
        || may_be_called_at_exit
    {
        if handle.is_null() {
            // No code refers to the handle, so any address of the program serves.
            *handle = code.start;
        }
        let (init, fini) = (image.init.unwrap_or_default(), image.fini.unwrap_or_default());
        let program = (*handle, code, init, fini);
        let register = action::<ProgramRegister>(peer, &program)?;
        actions.push((register, action::<ProgramDeregister>(peer, &(*handle,))?));
    }
    Ok(actions)
}

fn of_threads(peer: &dyn Peer, threads: &TlsBlock) -> Result<(Action, Action)> {
    let TlsBlock { offset, module, initial, bytes } = *threads;
    let Some(module) = module else {
        let initialize = action::<ThreadInitialize>(peer, &(offset, initial, bytes))?;
        return Ok((initialize, Action::default()));
    };
    let register = action::<ThreadBlockRegister>(peer, &(module, initial, bytes))?;
    Ok((register, action::<ThreadBlockDeregister>(peer, &(module,))?))
}
