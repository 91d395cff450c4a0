//! Run JIT-compiled code in another process at nearly the cost of a function call.
//!
//! ```text
//!  controller: your program          executor: runs the linked code
//!   function.call((3, 0.5)) =======>  scale(3, 0.5)      a lane: one cache line, there and back
//!   linker                  ------->  code, constants,   a slab: the same pages, mapped in both
//!                                     data
//! ```
//!
//! ```no_run
//! use farcall::controller::ExecutorBuilder;
//! use farcall::link::ObjectFile;
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     farcall::executor::run_if_spawned(); // the executor is this program, started again
//!     let executor = ExecutorBuilder::new().this_program().start()?;
//!     let library = executor.library("main");
//!     library.add_object(&ObjectFile::parse("scale.o", std::fs::read("scale.o")?)?)?;
//!     let scale = library.function::<extern "C" fn(i64, f64) -> f64>("scale");
//!     println!("3 * 0.5 = {}", scale.call((3, 0.5))?);
//!     Ok(())
//! }
//! ```
//!
//! `scale.o` is any ELF object, for example from `double scale(long count, double unit) { return count * unit; }`. The executor may
//! crash or hang: each call that waits for it returns an error that says how it ended.
//!
//! | module | for |
//! |---|---|
//! | [`controller`] | starting executors, linking objects, calling, sharing memory, replacing functions |
//! | [`link`] | object files and archives; the linker alone, bytes in and bytes out |
//! | [`bind`] | functions of a native library that run in another process, by a binding that `farcall bind` writes |
//! | [`macro@isolate`] | functions of this program that run in another process, by one line |
//! | [`orc`] | dylibs whose symbols are supplied at the first lookup, with names as in LLVM's ORC |
//! | [`executor`] | being an executor: this program's other half, a served connection, a polled one |
//! | [`session`] | an executor's session, embedded in a host that decides about threads |
//! | [`types`] | C types at run time: signatures, values, structures |
//! | [`task`] | what runs a session's tasks: a pool, a queue, the caller |
//! | [`Connection`] | pipes, sockets, and lanes through them, for executors that were not started here |
//! | [`sps`] | Simple Packed Serialization, LLVM's form for arguments |
//! | [`addr`], [`error`], [`limits`] | addresses of the executor, the one error type, every maximum |
//!
#![cfg_attr(
    any(doc, doctest),
    doc = "Pages: [guide](_docs::guide), [limits](_docs::limits), [comparison](_docs::compare),"
)]
#![cfg_attr(
    any(doc, doctest),
    doc = "[architecture](_docs::architecture), [protocol](_docs::protocol), [linking](_docs::linking),"
)]
#![cfg_attr(
    any(doc, doctest),
    doc = "[threading](_docs::threading), [waiting](_docs::waiting), [trust](_docs::trust), [decisions](_docs::decisions)."
)]
#![cfg_attr(
    not(target_arch = "x86_64"),
    allow(
        dead_code,
        reason = "calls are interrupted, and thread-locals found without a call, on x86-64 alone"
    )
)]
#![cfg_attr(model, allow(unused, unreachable_pub, reason = "the sides of a session are not built"))]

// Under a model checker, and with a lying peer, only the rooms that move messages are built: neither has system calls.

#[cfg(all(feature = "isolate", not(model)))]
pub mod bind;
mod call;
mod concurrent;
#[cfg(not(model))]
pub mod controller;
#[cfg(not(model))]
pub mod executor;
#[cfg(hostile)]
#[doc(hidden)]
#[path = "../tests/fuzz/hostile/mod.rs"]
pub mod hostile;
#[cfg(not(model))]
pub mod in_process;
#[cfg(all(feature = "internals", not(model)))]
#[doc(hidden)]
pub mod internals;
#[cfg(all(feature = "isolate", not(model)))]
pub mod isolate;
#[cfg(not(model))]
pub mod orc {
    //! LLVM's ORC by its names: sessions of dylibs whose symbols are supplied at the first lookup, and object layers.
    //!
    //! [`ExecutionSession`] has the model. It knows no executor: an [`ObjectLayer`] links objects for it into a
    //! [`Process`](crate::controller::Process). A host that is not written for LLVM's interfaces does best with
    //! [`Library`](crate::controller::Library).

    pub use crate::controller::layer::host_link::{HostDefinition, HostLink, HostReference};
    pub use crate::controller::layer::object_layer::ObjectLayer;
    pub use crate::controller::layer::object_sources::{ArchiveMembers, ProcessSymbols};
    pub use farcall_orc::jit::*;
}
mod ring;
#[cfg(any(not(model), shuttle))]
pub mod session;
mod shm;
mod sleep;
pub mod sps;
mod sys;
#[cfg(not(model))]
mod trace;
mod transport;
mod wire;

// The ground, a package of its own.
#[cfg(not(model))]
use farcall_base::parallel;
#[cfg(any(test, hostile))]
use farcall_base::random;
pub use farcall_base::{addr, error, limits, types};
use farcall_base::{deadline, origin, sync};
#[cfg(not(model))]
use farcall_orc::jit;
pub use farcall_orc::task;

pub use addr::{AddrRange, ExecutorAddr, PerProt, Prot};
/// # Examples
///
/// ```
/// use farcall::controller::ExecutorBuilder;
///
/// farcall::executor::run_if_spawned();
/// let process = ExecutorBuilder::new().this_program().start()?.process()?;
/// process.kill();
/// let error = process.call(farcall::ExecutorAddr::NULL, &[]).expect_err("the executor is dead");
/// let death = error.death().expect("the kernel says how");
/// assert_eq!(death.to_string(), "executor died by SIGKILL");
/// # Ok::<(), farcall::Error>(())
/// ```
pub use error::{Death, Fact};
pub use error::{Error, ErrorKind, Result};
#[cfg(all(feature = "isolate", not(model)))]
pub use farcall_macros::isolate;
#[cfg(not(model))]
pub use transport::Connection;

/// The linker: object files and archives in, a relocated image out. It is the package `farcall-link`, which programs can use
/// alone, with the same names.
#[cfg(not(model))]
pub mod link {
    /// # Examples
    ///
    /// Linked and called:
    ///
    /// ```standalone_crate
    /// farcall::executor::run_if_spawned();
    /// let executor = farcall::controller::ExecutorBuilder::new().this_program().start()?;
    /// let mut object = farcall::link::ObjectBuilder::new("made by hand");
    /// // lea rax, [rdi + 1]; ret
    /// object.function("next", [0x48, 0x8d, 0x47, 0x01, 0xc3]);
    /// let library = executor.library("main");
    /// library.add_object(&object.build()?)?;
    /// let next = library.function::<extern "C" fn(i64) -> i64>("next");
    /// assert_eq!(next.call((41,))?, 42);
    /// # Ok::<(), farcall::Error>(())
    /// ```
    pub use farcall_link::ObjectBuilder;
    pub(crate) use farcall_link::internals::{
        Archives, NameMap, StubPage, export_file, handler_object, names_file,
    };
    pub use farcall_link::{
        Archive, CalleeSaved, Definition, Dependencies, Export, External, FileBytes, Frame, Ifunc,
        Image, Input, Layout, LinkGraph, LinkStats, ObjectCache, ObjectFile, ObjectPart, Options,
        Place, PlacedObject, Processor, SourceLine, SymbolTable, TlsBlock, Undefined, Verified,
        run,
    };
}

#[cfg(any(doc, doctest))]
macro_rules! pages {
    ($($name:ident $file:literal,)*) => {
        /// The pages of `src/docs`: how to use farcall, how it works, and why it is so.
        pub mod _docs {
            $(
                // Links between pages: the first definition counts, which is a module here and a file elsewhere.
                #[doc = "[guide]: guide\n[limits]: limits\n[threading]: threading\n[trust]: trust\n"]
                #[doc = "[`controller`]: crate::controller\n[`orc`]: crate::orc\n"]
                #[doc = include_str!($file)]
                pub mod $name {}
            )*
        }
    };
}

#[cfg(any(doc, doctest))]
pages! {
    guide "docs/guide.md",
    isolate "docs/guide/isolate.md",
    bind "docs/guide/bind.md",
    programs "docs/guide/programs.md",
    executors "docs/guide/executors.md",
    memory "docs/guide/memory.md",
    calls "docs/guide/calls.md",
    crashes "docs/guide/crashes.md",
    code "docs/guide/code.md",
    languages "docs/guide/languages.md",
    limits "docs/limits.md",
    compare "docs/compare.md",
    architecture "docs/architecture.md",
    protocol "docs/protocol.md",
    linking "docs/linking.md",
    threading "docs/threading.md",
    waiting "docs/waiting.md",
    trust "docs/trust.md",
    decisions "docs/decisions.md",
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
