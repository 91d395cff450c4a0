//! The dependencies of names.

use crate::Dependencies;
use crate::tests::*;

fn dependencies(flags: &str, source: &str) -> Vec<(String, String)> {
    let mut graph = LinkGraph::for_processor(Processor::X86_64);
    graph.add_object(&compile("d.o", flags, source)).unwrap();
    let join = |names: &[std::sync::Arc<str>]| {
        let mut names: Vec<&str> = names.iter().map(|name| &**name).collect();
        names.sort_unstable();
        names.join(" ")
    };
    let group = |one: Dependencies| (join(&one.symbols), join(&one.on));
    let mut groups: Vec<_> = graph.dependencies().into_iter().map(group).collect();
    groups.sort_unstable();
    groups
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(one, other)| ((*one).to_owned(), (*other).to_owned())).collect()
}

const SECTIONS: &str = "-O2 -fPIC -ffunction-sections -fdata-sections -fno-inline";

#[test]
fn a_name_depends_on_what_its_section_refers_to() {
    let source = "int out1(void), out2(void); extern int data;
        int leaf(void) { return 1; }
        int one(void) { return out1() + 1; }
        int two(void) { return one() + data; }
        int three(void) { return three() + 1; }
        int (*const table[])(void) = { two, out2 };";
    let expected = [("one", "out1"), ("table", "out2 two"), ("two", "data one")];
    assert_eq!(dependencies(SECTIONS, source), pairs(&expected));
}

#[test]
fn nameless_data_counts_as_part_of_its_referrer() {
    let source = "int out1(void), out2(void);
        static int hidden(int n) { return n > 0 ? out1() : 0; }
        static int (*const pointers[])(void) = { out2, 0 };
        int leaf(void) { return 1; }
        int calls(int n) { return hidden(n) + 1; }
        int reads(int n) { return pointers[n]() + 1; }";
    let expected = [("calls", "out1"), ("reads", "out2")];
    assert_eq!(dependencies(SECTIONS, source), pairs(&expected));
}

#[test]
fn names_of_one_section_depend_on_the_same() {
    let source =
        "int out(void); int leaf(void) { return 1; } int calls(void) { return out() + 1; }";
    assert_eq!(dependencies("-O2 -fPIC", source), pairs(&[("calls leaf", "out")]));
}

#[test]
fn code_depends_on_what_its_unwinding_needs() {
    let source = "void f(); struct T { ~T(); }; void g() { T t; f(); } extern \"C\" int data = 1;";
    let flags = "-O2 -fPIC -xc++ -ffunction-sections";
    let groups = dependencies(flags, source);
    let (_, on) = groups.iter().find(|(names, _)| names.contains("_Z1gv")).unwrap();
    assert!(on.contains("DW.ref.__gxx_personality_v0") && on.contains("_Z1fv"), "{groups:?}");
    let personality = ("DW.ref.__gxx_personality_v0".to_owned(), "__gxx_personality_v0".to_owned());
    assert!(groups.contains(&personality), "{groups:?}");
    assert!(!groups.iter().any(|(names, _)| names == "data"), "{groups:?}");
}
