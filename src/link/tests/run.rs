//! A link by one call.

use super::*;
use crate::tests::read::archives::archive;
use crate::{External, Input, Options, Place, run};

/// At the usual addresses.
fn place(_: &crate::Layout) -> Result<Place> {
    Ok(Place { bases: BASES.map(ExecutorAddr::new), thread_offset: 0 })
}

#[test]
fn one_call_makes_the_image_of_the_steps() {
    let object = compile(
        "a.o",
        "-O1 -fPIC",
        "int far(int); int near; int f(int n) { return far(n) + near; }",
    );
    let far = External { callable: true, ..ExecutorAddr::new(FAR).into() };
    let mut asked = Vec::new();
    let resolve = |missing: &crate::Undefined| {
        asked.push(missing.name.to_string());
        Ok(Some(far))
    };
    let image = run([Input::Object(&object)], &Options::default(), resolve, place).unwrap();
    assert_eq!(asked, ["far"]);
    let mut graph = LinkGraph::for_processor(Processor::X86_64);
    graph.add_object(&object).unwrap();
    graph.define_external("far", far);
    let steps = graph.layout().unwrap().fixup(BASES.map(ExecutorAddr::new), 0).unwrap();
    assert_eq!((image.stripes, image.bytes), (steps.stripes, steps.bytes));
}

#[test]
fn members_come_from_archives_wherever_they_stand() {
    let object = compile("a.o", "-O1 -fPIC", "int helper(void); int f(void) { return helper(); }");
    let members = [
        ("helper.o", "int helper(void) { return 1; }"),
        ("extra.o", "int extra(void) { return 2; }"),
    ];
    let archive = archive("rcs", &members);
    let inputs = [Input::Archive(&archive), Input::Object(&object)];
    let none = |missing: &crate::Undefined| panic!("{missing:?}");
    let image = run(inputs, &Options::default(), none, place).unwrap();
    assert_eq!(image.stats.objects, 2);
    assert_eq!(image.symbols.address_of("extra"), None);
    let image = run(inputs, &Options::default().want("extra"), none, place).unwrap();
    assert_eq!(image.stats.objects, 3);
    assert!(image.symbols.address_of("extra").is_some());
}

#[test]
fn all_names_without_an_address_are_in_one_error() {
    let source = "int a(void), b(void), c(void) __attribute__((weak)); int f(void) { return a() + b() + (c ? c() : 0); }";
    let object = compile("a.o", "-O1 -fPIC", source);
    let none = |_: &crate::Undefined| Ok(None);
    let error = run([Input::Object(&object)], &Options::default(), none, place).unwrap_err();
    assert_eq!(error.symbols(), ["a", "b"]);
    let refused = |_: &crate::Undefined| Err(Error::other("not from here"));
    let error = run([Input::Object(&object)], &Options::default(), refused, place).unwrap_err();
    assert_eq!(error.to_string(), "not from here");
}
