//! The shape of the tree, and what its pages say.

pub(crate) mod conformance;
pub(crate) mod documents;
pub(crate) mod doors;
pub(crate) mod inside;
pub(crate) mod processors;
pub(crate) mod rules;
pub(crate) mod tidy;
