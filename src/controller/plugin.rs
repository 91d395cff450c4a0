//! Plugins: they look at each link, and add memory and actions to it.

pub use super::linker::finalizing::Finalizing;
pub use super::linker::link_report::LinkStep;
pub use super::linker::object_plugin::ObjectPlugin;
