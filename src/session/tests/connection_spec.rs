//! `ConnectionSpecTest`, and the registry of connectors.

use super::*;
use crate::error::ErrorKind;
use crate::session::{ConnectionSpec, ConnectorRegistry};

type Parts<'a> = (&'a str, Option<&'a str>, &'a str);

fn is(text: &str, (transport, action, descriptor): Parts<'_>) {
    let spec: ConnectionSpec = text.parse().expect("a connection");
    assert_eq!(
        (spec.transport(), spec.action(), spec.descriptor()),
        (transport, action, descriptor)
    );
    assert_eq!(spec.to_string(), text);
}

fn refused(text: &str, why: &str) {
    let error = text.parse::<ConnectionSpec>().expect_err("no connection");
    assert!(error.kind() == ErrorKind::InvalidArgument, "{error:?}");
    let expected = format!("\"{text}\": {why}");
    assert!(error.to_string().contains(&expected), "{error}");
}

#[test]
fn transport_and_descriptor() {
    is("pipe=3,4", ("pipe", None, "3,4"));
}

#[test]
fn transport_action_and_descriptor() {
    is("socket:adopt=5", ("socket", Some("adopt"), "5"));
    is("tcp:connect=localhost:20000", ("tcp", Some("connect"), "localhost:20000"));
}

#[test]
fn transport_action_and_multi_part_descriptor() {
    is("pipe:adopt=3,4", ("pipe", Some("adopt"), "3,4"));
}

#[test]
fn descriptor_keeps_colons_and_equals() {
    is("tcp:connect=host:4000", ("tcp", Some("connect"), "host:4000"));
    is("tcp=host:4000", ("tcp", None, "host:4000"));
    is("x=a=b:c=d", ("x", None, "a=b:c=d"));
}

#[test]
fn empty_descriptor_is_allowed() {
    is("local=", ("local", None, ""));
    is("local:here=", ("local", Some("here"), ""));
}

#[test]
fn case_counts() {
    is("TCP:Connect=A", ("TCP", Some("Connect"), "A"));
}

#[test]
fn missing_equals_fails() {
    refused("tcp:connect", "it has no '='");
    refused("", "it has no '='");
}

#[test]
fn empty_transport_fails() {
    refused("=x", "it names no transport");
    refused(":adopt=5", "it names no transport");
}

#[test]
fn empty_action_fails() {
    refused("socket:=5", "nothing follows its ':'");
}

#[test]
fn error_message_quotes_the_spec() {
    for spec in ["tcp:connect", "=x:y", ":=", ""] {
        let error = spec.parse::<ConnectionSpec>().expect_err("no connection").to_string();
        assert!(error.contains(&format!("\"{spec}\"")), "{error}");
    }
}

#[test]
fn a_registry_finds_what_was_registered() {
    let (registry, log) = (Arc::new(ConnectorRegistry::new()), Log::default());
    let (inner, noted) = (Arc::clone(&registry), log.clone());
    registry
        .register("one", move |spec, _| {
            // No lock is held.
            let _ = inner.register("two", |_, _| Err(broken()));
            noted.note(spec.to_string());
            Ok(())
        })
        .expect("the first");
    assert!(registry.register("one", |_, _| Ok(())).is_err(), "twice");
    let session = session(Queue::default().options());
    registry.connect("one:now=7", &session).expect("connected");
    assert_eq!(log.take(), ["one:now=7"]);
    assert_eq!(registry.connect("two=", &session).expect_err("refuses").to_string(), "it broke");
    let error = registry.connect("three=x", &session).expect_err("unregistered").to_string();
    assert!(error.contains("\"three=x\": no such transport"), "{error}");
    assert!(registry.connect("nonsense", &session).is_err());
}
