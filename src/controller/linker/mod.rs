//! Links, from objects to code that can be called. [`order`] has the phases.
//!
//! | file | what it is |
//! |---|---|
//! | `order`, `link_report` | the order of a link, and its report |
//! | `linking`, `linking/actions`, `tls_allocator` | look-ups, memory, thread-local storage and actions of links |
//! | `object_plugin`, `finalizing` | plugins, and the memory and actions that they add |
//! | `defined_handler`, `initial_data` | parts of a link: handlers of stubs; data for fresh runs |
//! | `retired` | links to remove when no call is in them |
//! | `stubs`, `lazy_functions` | stubs of redirected functions, and functions that are compiled at their first call |

pub(crate) mod defined_handler;
pub(crate) mod finalizing;
pub(crate) mod initial_data;
pub(crate) mod lazy_functions;
pub(crate) mod link_report;
pub(crate) mod linking;
pub(crate) mod object_plugin;
pub(crate) mod order;
pub(crate) mod retired;
pub(crate) mod stubs;
pub(crate) mod tls_allocator;
