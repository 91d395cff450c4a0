//! The work of a linker for a program, feature by feature: the rows of the table.
//!
//! Invariant: every program of `tests/sources/table` knows every feature by its name.

/// A row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Feature {
    /// The argument that the programs get.
    pub(super) name: &'static str,
    /// Its name in the table.
    pub(super) title: &'static str,
}

impl Feature {
    /// True when it is tried in the program that has the object with too many sections in addition.
    pub(super) fn needs_many_sections(&self) -> bool {
        self.name == "sections"
    }
}

const fn feature(name: &'static str, title: &'static str) -> Feature {
    Feature { name, title }
}

/// All rows.
pub(super) const FEATURES: [Feature; 29] = [
    feature("calls", "calls, data"),
    feature("relocations", "relocations, fields of all kinds"),
    feature("table", "`_GLOBAL_OFFSET_TABLE_` in assembly"),
    feature("moved", "variables of the C and C++ libraries"),
    feature("library", "`-l` with a shared library"),
    feature("archive", "lazy members of an archive"),
    feature("thin", "lazy members of a thin archive"),
    feature("weak", "weak, undefined weak"),
    feature("common", "common symbols"),
    feature("group", "COMDAT groups"),
    feature("merge", "mergeable strings and constants"),
    feature("bounds", "`__start_X`, `__stop_X`"),
    feature("sections", "65 500 sections"),
    feature("property", "`.note.gnu.property`"),
    feature("ifunc", "`ifunc`"),
    feature("start", "`.preinit_array`, `.init_array`, `.ctors`: order"),
    feature("end", "`.fini_array`, `.dtors`, `atexit`, `__cxa_atexit`: order"),
    feature("unwind", "unwinding across objects, through C frames"),
    feature("frames", "`.eh_frame` of assembly, with CFI and without"),
    feature("names", "a backtrace names functions"),
    feature("gd", "thread-locals: global-dynamic"),
    feature("ld", "thread-locals: local-dynamic"),
    feature("ie", "thread-locals: initial-exec"),
    feature("le", "thread-locals: local-exec"),
    feature("desc", "thread-locals: TLSDESC"),
    feature("locals", "thread-locals in several threads"),
    feature("ends", "destructors of thread-locals"),
    feature("threads", "threads"),
    feature("numbers", "variable arguments, floating point"),
];

/// The notes below the table, each for the cells that name it.
pub(super) const NOTES: [(&str, &str); 5] = [
    (
        OWN_SECTIONS,
        "rustc gives every function and every variable a section of its own, always: the column before.",
    ),
    (
        NO_PLT,
        "rustc calls through the table of addresses and not through stubs, always: the column of `pic`.",
    ),
    (
        NO_TENTATIVE,
        "Rust has no tentative definitions. The common symbols of assembly are in their row, in every column.",
    ),
    (
        OUTLINED,
        "rustc has functions for the operations of atomic variables, always: the first column.",
    ),
    (NO_BRANCH_PROTECTION, "rustc has such a flag in its nightly releases only."),
];
pub(super) const OWN_SECTIONS: &str = "(1)";
pub(super) const NO_PLT: &str = "(2)";
pub(super) const NO_TENTATIVE: &str = "(3)";
pub(super) const OUTLINED: &str = "(4)";
pub(super) const NO_BRANCH_PROTECTION: &str = "(5)";
