//! Functions of the executor, and the ways of calling them: at once, for a time, later, many together.

pub(crate) mod batch;
pub(in crate::controller) mod bound_function;
pub(crate) mod call_options;
pub(crate) mod function_type;
pub(in crate::controller) mod handle;
pub(in crate::controller) mod overdue;
pub(crate) mod pending_call;
pub(crate) mod pipeline;
pub(crate) mod rows;
pub(crate) mod scalar;

pub use batch::Batch;
pub use call_options::{CallOptions, OnDeadline};
pub use function_type::{Bytes, CFunctionType, FunctionType, StaticType};
pub use pending_call::PendingCall;
pub use pipeline::Pipeline;
pub use rows::Rows;
pub use scalar::{Return, Scalar};
