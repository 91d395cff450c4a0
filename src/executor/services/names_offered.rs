//! The names and addresses that an executor offers a controller.

use super::{lazy, memory, new_code};
use crate::ExecutorAddr;
use crate::call::OTHER_NAMES;
use crate::call::contract::{
    CopyKeep, CopyReset, DebuggerDeregister, DebuggerRegister, DylibFind, DylibLookup,
    FramesDeregister, FramesRegister, IndirectResolve, LazyPrepare, NamesDeregister, NamesPrecede,
    NamesRegister, NamesYield, ProcessExit, ProcessInfo, ProfileMark, ProgramAnnounce,
    ProgramDeregister, ProgramInitialize, ProgramMain, ProgramRegister, ProgramRun, ProgramStart,
    SESSION_INSTANCE, StackExecutable, ThreadBlockDeregister, ThreadBlockRegister,
    ThreadInitialize, ThreadLookup,
};
use crate::executor::context::instance::Instance;
use crate::executor::entry::typed;
use crate::executor::entry::wrapper::offer;
use crate::executor::memory::access::{self, texts};
use crate::executor::tls::{static_reserve, tls_get_addr};

/// The names and addresses that this process offers, aliases included.
pub(crate) fn symbols(instance: &Instance) -> Vec<(String, ExecutorAddr)> {
    let mut symbols = vec![
        (SESSION_INSTANCE.to_owned(), instance.instance()),
        ("orc_rt_ci_NativeDylibManager_Instance".to_owned(), instance.instance()),
        offer::<ProcessInfo>(),
        offer::<DylibLookup>(),
        offer::<DylibFind>(),
        offer::<DebuggerRegister>(),
        offer::<DebuggerDeregister>(),
        offer::<FramesRegister>(),
        offer::<FramesDeregister>(),
        offer::<NamesRegister>(),
        offer::<NamesDeregister>(),
        offer::<ProgramAnnounce>(),
        offer::<NamesPrecede>(),
        offer::<NamesYield>(),
        offer::<ProfileMark>(),
        offer::<StackExecutable>(),
        offer::<ThreadLookup>(),
        offer::<ThreadInitialize>(),
        offer::<ThreadBlockRegister>(),
        offer::<ThreadBlockDeregister>(),
        offer::<IndirectResolve>(),
        offer::<ProgramRegister>(),
        offer::<ProgramDeregister>(),
        offer::<ProgramInitialize>(),
        offer::<ProgramMain>(),
        offer::<ProgramRun>(),
        offer::<ProgramStart>(),
        offer::<ProcessExit>(),
        offer::<LazyPrepare>(),
        offer::<CopyKeep>(),
        offer::<CopyReset>(),
    ];
    symbols.extend(typed::functions());
    symbols.push(lazy::resolver());
    symbols.extend(new_code::publisher());
    symbols.extend(memory::functions());
    symbols.extend(access::functions());
    symbols.extend(texts::functions());
    for (name, others) in OTHER_NAMES {
        let address = symbols.iter().find(|(offered, _)| offered == name).map(|(_, at)| *at);
        symbols.extend(others.iter().filter_map(|other| Some(((*other).to_owned(), address?))));
    }
    if static_reserve::get().is_some() {
        symbols.extend(tls_get_addr::functions());
    }
    symbols
}
