//! `BootstrapInfoTest` and `SimpleSymbolTableTest`.

use super::*;
use crate::error::ErrorKind;
use crate::session::{SESSION_SYMBOL, SimpleSymbolTable};

fn at(address: u64) -> ExecutorAddr {
    ExecutorAddr::new(address)
}

fn table(symbols: &[(&str, u64)]) -> SimpleSymbolTable {
    let mut table = SimpleSymbolTable::new();
    let symbols = symbols.iter().map(|(name, address)| (*name, at(*address)));
    table.add_unique(symbols).expect("no conflict");
    table
}

#[test]
fn empty_by_default() {
    let table = SimpleSymbolTable::new();
    assert!(table.is_empty() && table.get("a").is_none() && table.iter().next().is_none());
}

#[test]
fn add_symbols_unique() {
    let table = table(&[("b", 2), ("a", 1)]);
    assert_eq!((table.len(), table.get("a"), table.get("b")), (2, Some(at(1)), Some(at(2))));
}

#[test]
fn add_symbols_unique_multiple_calls() {
    let mut table = table(&[("a", 1)]);
    table.add_unique([("b", at(2))]).expect("no conflict");
    assert_eq!((table.len(), table.get("a"), table.get("b")), (2, Some(at(1)), Some(at(2))));
}

#[test]
fn iteration() {
    let table = table(&[("b", 2), ("c", 3), ("a", 1)]);
    let all: Vec<_> = table.iter().collect();
    assert_eq!(all, [("a", at(1)), ("b", at(2)), ("c", at(3))], "sorted by name");
}

#[test]
fn add_unique_same_address_succeeds() {
    let mut table = table(&[("a", 1)]);
    table.add_unique([("a", at(1)), ("b", at(2)), ("b", at(2))]).expect("the same again");
    assert_eq!(table.len(), 2);
}

#[test]
fn two_names_may_have_one_address() {
    assert_eq!(table(&[("a", 1), ("b", 1)]).len(), 2);
}

#[test]
fn add_symbols_unique_duplicate_rejected() {
    let mut table = table(&[("a", 1)]);
    let error = table.add_unique([("a", at(2))]).expect_err("another address");
    assert!(error.kind() == ErrorKind::InvalidArgument, "{error:?}");
    assert!(error.to_string().contains("a (0x1, now 0x2)"), "{error}");
    assert_eq!(table.get("a"), Some(at(1)));
}

#[test]
fn add_symbols_unique_all_or_nothing() {
    let mut table = table(&[("b", 1)]);
    let before = table.clone();
    table.add_unique([("a", at(7)), ("b", at(2)), ("c", at(8))]).expect_err("b");
    assert_eq!(table, before);
}

#[test]
fn add_symbols_unique_multiple_duplicates() {
    let mut table = table(&[("a", 1), ("b", 1), ("c", 1)]);
    let error = table.add_unique([("c", at(2)), ("b", at(1)), ("a", at(2))]).expect_err("a, c");
    let text = error.to_string();
    let (a, c) = (text.find("a (").expect("a"), text.find("c (").expect("c"));
    assert!(a < c && !text.contains("b ("), "{text}");
}

#[test]
fn conflict_inside_of_one_request() {
    let mut table = SimpleSymbolTable::new();
    let error = table.add_unique([("a", at(1)), ("a", at(2))]).expect_err("a");
    assert!(error.to_string().contains("a (0x1, now 0x2)"), "{error}");
    assert!(table.is_empty());
}

// BootstrapInfoTest

#[test]
fn explicit_construction() {
    let info = BootstrapInfo::default();
    assert!(info.symbols().is_empty() && info.values().next().is_none());
    assert_eq!((info.triple(), info.value("v")), ("", None));
}

#[test]
fn create_default_with_no_symbols_builder() {
    let session = session(Queue::default().options());
    let info = session.bootstrap_info();
    assert_eq!(info.symbols().get(SESSION_SYMBOL), Some(session.address()));
    assert_eq!(info.symbols().len(), 1);
}

#[test]
fn explicit_construction_with_symbols_and_values() {
    let options = Queue::default().options();
    let options = options.symbols([("a", at(1))]).expect("a symbol").value("v", *b"bytes");
    let session = session(options.expect("a value"));
    let info = session.bootstrap_info();
    assert_eq!(info.symbols().get("a"), Some(at(1)));
    assert_eq!(info.value("v"), Some(&b"bytes"[..]));
    assert_eq!(info.values().collect::<Vec<_>>(), [("v", &b"bytes"[..])]);
}

#[test]
fn create_default_symbols_builder_error() {
    let options = Queue::default().options().symbols([("a", at(1))]).expect("a symbol");
    assert!(options.symbols([("a", at(2))]).expect_err("a").to_string().contains("a (0x1"));
}

#[test]
fn create_default_values_builder_error() {
    let options = Queue::default().options().value("v", [1]).expect("a value");
    let options = options.value("v", [1]).expect("the same again");
    let error = options.value("v", [1, 2]).expect_err("v").to_string();
    assert!(error.contains("v has 1 bytes already, and 2"), "{error}");
}

#[test]
fn function_clash_is_detected() {
    let options = Queue::default().options().function("f", |_, _, _| {}).expect("a function");
    assert!(options.function("f", |_, _, _| {}).is_err());
}

#[test]
fn clash_with_the_session_symbol_is_detected() {
    let options = Queue::default().options().symbols([(SESSION_SYMBOL, at(1))]);
    let error = options.expect("a symbol").build().expect_err("the session's").to_string();
    assert!(error.contains(SESSION_SYMBOL), "{error}");
}

// SimpleSymbolTableTest, look-ups of several names

#[test]
fn lookup_empty_set() {
    assert!(table(&[("a", 1)]).lookup::<&str>(&[]).is_empty());
}

#[test]
fn lookup_required_present_preserves_order() {
    let table = table(&[("a", 1), ("b", 2), ("c", 3)]);
    let found = table.lookup(&[("c", true), ("a", true), ("b", true), ("a", true)]);
    assert_eq!(found, [Some(at(3)), Some(at(1)), Some(at(2)), Some(at(1))]);
}

#[test]
fn lookup_weak_present_returns_address() {
    assert_eq!(table(&[("a", 1)]).lookup(&[("a", false)]), [Some(at(1))]);
}

#[test]
fn lookup_weak_missing_is_present_null() {
    assert_eq!(table(&[("a", 1)]).lookup(&[("b", false)]), [Some(ExecutorAddr::NULL)]);
}

#[test]
fn lookup_required_missing_is_empty_optional() {
    assert_eq!(table(&[("a", 1)]).lookup(&[("b", true)]), [None]);
}

#[test]
fn lookup_mixed_present_and_missing() {
    let names = [("z", true), ("a", true), ("weak", false), ("a", false)];
    let names = names.map(|(name, is_required)| (name.to_owned(), is_required));
    let found = table(&[("a", 1)]).lookup(&names);
    assert_eq!(found, [None, Some(at(1)), Some(ExecutorAddr::NULL), Some(at(1))]);
}

#[test]
fn lookup_uses_linker_level_names() {
    // The names of C and of the linker are the same in ELF; a name of C++ is the mangled one.
    let table = table(&[("main", 1), ("_Z3addii", 2)]);
    let found = table.lookup(&[("main", true), ("_main", true), ("_Z3addii", true), ("add", true)]);
    assert_eq!(found, [Some(at(1)), None, Some(at(2)), None]);
}
