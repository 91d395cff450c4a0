//! The one integration test binary: a module per theme.

mod library;
