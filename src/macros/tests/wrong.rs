//! Wrong uses of the attribute, with what the compiler says of each.

#[test]
fn wrong_uses_are_refused_at_their_places() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/wrong/*.rs");
}
