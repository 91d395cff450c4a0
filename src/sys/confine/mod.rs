//! Confinement: the rights that a process loses at a moment, and never gets back.
//!
//! | part | what it is |
//! |---|---|
//! | `confinement` | what the caller requests: a level, and limits |
//! | `enforced` | what the kernel enforces: a set of restrictions |
//! | `resources` | limits on memory, CPU time, descriptors, files |
//! | `capabilities` | a process of root without root's rights |
//! | `filter` | filters of system calls: what they are made of |
//! | `processes` | the system calls that take a process |
//! | `sockets` | the ways to the network |
//! | `system_calls` | what is left at each level |
//! | `landlock` | files, TCP, signals, other processes |
//! | `sweeper` | the process that ends what the confined one leaves |
//! | `apply` | all of it, in the order that is needed |
//!
//! A part imports only from those above it.

pub(crate) mod apply;
mod capabilities;
pub(crate) mod confinement;
pub(crate) mod enforced;
pub(in crate::sys) mod filter;
mod landlock;
mod processes;
mod resources;
mod sockets;
mod sweeper;
mod system_calls;
