//! Names that the linker knows: those that it defines, and the entry of a program.

use std::collections::BTreeMap;

use crate::addr::Prot;

/// The name of the GOT.
pub(crate) const GOT_NAME: &str = "_GLOBAL_OFFSET_TABLE_";

/// The name of the TLS block in code that uses descriptors.
pub(crate) const TLS_MODULE_BASE_NAME: &str = "_TLS_MODULE_BASE_";

/// The name in backtraces of the stub of the executor's function for dynamic thread-locals.
pub(crate) const THREAD_FUNCTION_NAME: &str = "farcall_thread_address";

/// The function where a program starts. In a native program its caller is a part of the program; here the caller is outside
/// of the graph. So the name is exported even if it was compiled as hidden.
pub(crate) const ENTRY_NAME: &str = "main";

/// The name whose address identifies this link to `__cxa_atexit`.
pub(crate) const DSO_HANDLE_NAME: &str = "__dso_handle";

/// A place of the image that has names, as in a program that was linked natively.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bound {
    CodeStart,
    CodeEnd,
    DataStart,
    /// Where the zero fill starts.
    StoredDataEnd,
    DataEnd,
    PreinitStart,
    PreinitEnd,
    InitStart,
    InitEnd,
    FiniStart,
    FiniEnd,
}

/// The names of bounds, which the linker defines if an object refers to them and none defines them.
const BOUND_NAMES: [(&str, Bound); 19] = [
    ("__executable_start", Bound::CodeStart),
    ("__etext", Bound::CodeEnd),
    ("_etext", Bound::CodeEnd),
    ("etext", Bound::CodeEnd),
    ("__data_start", Bound::DataStart),
    ("data_start", Bound::DataStart),
    ("_edata", Bound::StoredDataEnd),
    ("edata", Bound::StoredDataEnd),
    ("__bss_start", Bound::StoredDataEnd),
    ("__TMC_END__", Bound::StoredDataEnd),
    ("__end", Bound::DataEnd),
    ("_end", Bound::DataEnd),
    ("end", Bound::DataEnd),
    ("__preinit_array_start", Bound::PreinitStart),
    ("__preinit_array_end", Bound::PreinitEnd),
    ("__init_array_start", Bound::InitStart),
    ("__init_array_end", Bound::InitEnd),
    ("__fini_array_start", Bound::FiniStart),
    ("__fini_array_end", Bound::FiniEnd),
];

/// The bound with this name.
pub(crate) fn bound(name: &str) -> Option<Bound> {
    BOUND_NAMES.iter().find(|(bound, _)| *bound == name).map(|(_, bound)| *bound)
}

/// Splits `__start_X` or `__stop_X`; the flag is true for the start.
pub(crate) fn section_bound(name: &str) -> Option<(&str, bool)> {
    let start = name.strip_prefix("__start_").map(|section| (section, true));
    start.or_else(|| name.strip_prefix("__stop_").map(|section| (section, false)))
}

/// True when the linker defines the name. `sets` are the sections that have bounds.
pub(crate) fn is_provided(name: &str, sets: &BTreeMap<&str, Prot>) -> bool {
    name == GOT_NAME
        || name == DSO_HANDLE_NAME
        || name == TLS_MODULE_BASE_NAME
        || bound(name).is_some()
        || section_bound(name).is_some_and(|(section, _)| sets.contains_key(section))
}
