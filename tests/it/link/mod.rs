//! Programs that link, compared with the native program of the same objects.

pub(crate) mod definitions;
pub(crate) mod hand_made;
pub(crate) mod indirect;
pub(crate) mod libraries;
pub(crate) mod link_time;
pub(crate) mod real;
pub(crate) mod scripts;
pub(crate) mod sizes;
pub(crate) mod start_files;
pub(crate) mod table;
pub(crate) mod thread_locals;
