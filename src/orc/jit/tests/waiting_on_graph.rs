//! The graph of dependencies: LLVM's cases by their names, and long chains.
//!
//! Invariant: LLVM's cases look at its nodes, one for all symbols with the same dependencies. These look at what becomes ready
//! with what, and at how many symbols are watched.

use crate::jit::waiting_on_graph::{Decided, Emitted, Node, WaitingOnGraph};

fn emit(graph: &mut WaitingOnGraph, groups: &[(&[Node], &[Node])]) -> Decided {
    let groups = groups.iter().map(|(defs, deps)| Emitted {
        defs: defs.to_vec(),
        deps: deps.to_vec(),
        is_failed: false,
    });
    let mut decided = graph.emit(groups);
    decided.ready.sort_unstable();
    decided.failed.sort_unstable();
    decided
}

fn ready(nodes: &[Node]) -> Decided {
    Decided { ready: nodes.to_vec(), failed: vec![] }
}

fn nothing() -> Decided {
    Decided::default()
}

#[test]
fn construct_and_destroy_empty() {
    assert!(WaitingOnGraph::default().is_empty());
}

#[test]
fn build_trivial_single_super_node() {
    let mut graph = WaitingOnGraph::default();
    assert_eq!(emit(&mut graph, &[(&[0], &[])]), ready(&[0]));
    assert!(graph.is_empty(), "what is ready is forgotten");
}

#[test]
fn build_non_trivial_single_super_node() {
    let mut graph = WaitingOnGraph::default();
    assert_eq!(emit(&mut graph, &[(&[0, 1, 2], &[3, 4, 5])]), nothing());
    assert_eq!(graph.classes(), 1);
    assert_eq!(emit(&mut graph, &[(&[5], &[])]), ready(&[5]));
    assert_eq!(emit(&mut graph, &[(&[3], &[])]), ready(&[3]));
    assert_eq!(emit(&mut graph, &[(&[4], &[])]), ready(&[0, 1, 2, 4]));
}

#[test]
fn build_coalesce_empty_deps() {
    let mut graph = WaitingOnGraph::default();
    assert_eq!(emit(&mut graph, &[(&[0], &[]), (&[1], &[])]), ready(&[0, 1]));
    assert!(graph.is_empty());
}

#[test]
fn build_coalesce_non_empty_deps() {
    let mut graph = WaitingOnGraph::default();
    assert_eq!(emit(&mut graph, &[(&[0], &[9]), (&[1], &[9])]), nothing());
    assert_eq!(graph.classes(), 1);
    assert_eq!(emit(&mut graph, &[(&[9], &[])]), ready(&[0, 1, 9]));
}

#[test]
fn build_coalesce_interleaved() {
    let mut graph = WaitingOnGraph::default();
    let (a, b): (&[Node], &[Node]) = (&[20, 30], &[40, 50]);
    assert_eq!(emit(&mut graph, &[(&[0], a), (&[10], b), (&[1], a), (&[11], b)]), nothing());
    assert_eq!(graph.classes(), 2);
    assert_eq!(emit(&mut graph, &[(&[30], &[]), (&[50], &[])]), ready(&[30, 50]));
    assert_eq!(graph.classes(), 2);
    assert_eq!(emit(&mut graph, &[(&[40], &[])]), ready(&[10, 11, 40]));
    assert_eq!(emit(&mut graph, &[(&[20], &[])]), ready(&[0, 1, 20]));
}

#[test]
fn build_empty_defs() {
    let mut graph = WaitingOnGraph::default();
    assert_eq!(emit(&mut graph, &[(&[], &[])]), nothing());
    assert_eq!(emit(&mut graph, &[(&[], &[7])]), nothing());
    assert!(graph.is_empty());
}

#[test]
fn build_self_dep_removal() {
    let mut graph = WaitingOnGraph::default();
    assert_eq!(emit(&mut graph, &[(&[0, 1], &[1])]), ready(&[0, 1]));
    assert!(graph.is_empty());
}

#[test]
fn simplification_empty_simplification() {
    let mut graph = WaitingOnGraph::default();
    assert_eq!(emit(&mut graph, &[(&[0], &[1])]), nothing());
    assert_eq!(emit(&mut graph, &[]), nothing());
    assert_eq!(graph.classes(), 1, "what waits goes on waiting");
}

#[test]
fn simplification_trivial_single_super_node() {
    let mut graph = WaitingOnGraph::default();
    assert_eq!(emit(&mut graph, &[(&[0], &[0])]), ready(&[0]), "it does not wait for itself");
    assert!(graph.is_empty());
}

#[test]
fn simplification_simplify_single_container_simple_cycle() {
    let mut graph = WaitingOnGraph::default();
    assert_eq!(emit(&mut graph, &[(&[0], &[1]), (&[1], &[0])]), ready(&[0, 1]));
    assert!(graph.is_empty());
}

#[test]
fn simplification_simplify_single_container_n_element_cycle() {
    let mut graph = WaitingOnGraph::default();
    for node in 0..9 {
        assert_eq!(emit(&mut graph, &[(&[node], &[node + 1])]), nothing());
    }
    assert_eq!(emit(&mut graph, &[(&[9], &[0])]), ready(&Vec::from_iter(0..10)));
    assert!(graph.is_empty());
}

/// Later than LLVM 22, as those below it that are about cycles (SCCs).
#[test]
fn simplification_coalesce_sccs_with_same_deps() {
    let mut graph = WaitingOnGraph::default();
    let cycles: [(&[Node], &[Node]); 4] =
        [(&[0], &[1, 9]), (&[1], &[0, 9]), (&[2], &[3, 9]), (&[3], &[2, 9])];
    assert_eq!(emit(&mut graph, &cycles), nothing());
    assert_eq!(graph.classes(), 1);
    assert_eq!(emit(&mut graph, &[(&[9], &[])]), ready(&[0, 1, 2, 3, 9]));
}

#[test]
fn simplification_propagate_deps_through_scc() {
    let mut graph = WaitingOnGraph::default();
    let all: [(&[Node], &[Node]); 4] =
        [(&[0], &[1]), (&[3], &[2]), (&[1], &[2, 8]), (&[2], &[1, 9])];
    assert_eq!(emit(&mut graph, &all), nothing());
    assert_eq!(emit(&mut graph, &[(&[8], &[])]), ready(&[8]));
    assert_eq!(emit(&mut graph, &[(&[9], &[])]), ready(&[0, 1, 2, 3, 9]));
}

#[test]
fn simplification_propagate_deps_through_three_node_scc() {
    let mut graph = WaitingOnGraph::default();
    let all: [(&[Node], &[Node]); 5] =
        [(&[0], &[1]), (&[4], &[3]), (&[1], &[2, 8]), (&[2], &[3]), (&[3], &[1, 9])];
    assert_eq!(emit(&mut graph, &all), nothing());
    assert_eq!(emit(&mut graph, &[(&[9], &[])]), ready(&[9]));
    assert_eq!(emit(&mut graph, &[(&[8], &[])]), ready(&[0, 1, 2, 3, 4, 8]));
}

#[test]
fn simplification_simplify_intra_simplify_propagate_deps() {
    let mut graph = WaitingOnGraph::default();
    assert_eq!(emit(&mut graph, &[(&[0], &[1, 2]), (&[1], &[3])]), nothing());
    assert_eq!(emit(&mut graph, &[(&[2], &[])]), ready(&[2]));
    assert_eq!(emit(&mut graph, &[(&[3], &[])]), ready(&[0, 1, 3]));
}

#[test]
fn emit_empty_emit() {
    assert_eq!(emit(&mut WaitingOnGraph::default(), &[]), nothing());
}

#[test]
fn emit_trivial_single_node() {
    assert_eq!(emit(&mut WaitingOnGraph::default(), &[(&[0], &[])]), ready(&[0]));
}

#[test]
fn emit_trivial_sequence() {
    // Ready symbols are not listed among dependencies: the caller leaves them out.
    let mut graph = WaitingOnGraph::default();
    assert_eq!(emit(&mut graph, &[(&[0], &[]), (&[1], &[0])]), ready(&[0, 1]));
}

#[test]
fn emit_single_container_simple_cycle() {
    let mut graph = WaitingOnGraph::default();
    assert_eq!(emit(&mut graph, &[(&[0], &[1])]), nothing());
    assert_eq!(emit(&mut graph, &[(&[1], &[0])]), ready(&[0, 1]));
    assert!(graph.is_empty());
}

#[test]
fn emit_single_container_independent_cycles() {
    let mut graph = WaitingOnGraph::default();
    assert_eq!(emit(&mut graph, &[(&[0], &[1, 2]), (&[10], &[11, 12])]), nothing());
    assert_eq!(emit(&mut graph, &[(&[1], &[0]), (&[11], &[10])]), nothing());
    assert_eq!(emit(&mut graph, &[(&[2], &[])]), ready(&[0, 1, 2]), "the other one waits");
    assert_eq!(emit(&mut graph, &[(&[12], &[])]), ready(&[10, 11, 12]));
}

#[test]
fn emit_no_scc_pollution_from_dependants() {
    let mut graph = WaitingOnGraph::default();
    assert_eq!(emit(&mut graph, &[(&[0], &[1, 10])]), nothing());
    assert_eq!(emit(&mut graph, &[(&[1], &[2])]), nothing());
    assert_eq!(emit(&mut graph, &[(&[2], &[1])]), ready(&[1, 2]), "not 0, which waits for 10");
    assert_eq!(emit(&mut graph, &[(&[10], &[])]), ready(&[0, 10]));
}

#[test]
fn emit_propagate_deps_through_scc() {
    let mut graph = WaitingOnGraph::default();
    assert_eq!(emit(&mut graph, &[(&[0], &[1]), (&[3], &[2])]), nothing());
    assert_eq!(emit(&mut graph, &[(&[1], &[2, 8]), (&[2], &[1, 9])]), nothing());
    assert_eq!(emit(&mut graph, &[(&[8], &[])]), ready(&[8]));
    assert_eq!(emit(&mut graph, &[(&[9], &[])]), ready(&[0, 1, 2, 3, 9]));
    assert!(graph.is_empty());
}

/// A symbol that was ready and forgotten waits like any other when it is named again.
#[test]
fn emit_re_emit() {
    let mut graph = WaitingOnGraph::default();
    assert_eq!(emit(&mut graph, &[(&[0], &[1])]), nothing());
    assert_eq!(emit(&mut graph, &[(&[1], &[])]), ready(&[0, 1]));
    assert_eq!(emit(&mut graph, &[(&[2], &[0])]), nothing());
    assert_eq!(graph.fail(&[0]).len(), 2);
    assert!(graph.is_empty());
}

#[test]
fn emit_trivial_reverse_sequence() {
    let mut graph = WaitingOnGraph::default();
    assert_eq!(emit(&mut graph, &[(&[0], &[1])]), nothing());
    assert_eq!(emit(&mut graph, &[(&[1], &[])]), ready(&[0, 1]));
}

#[test]
fn emit_coalescing() {
    let mut graph = WaitingOnGraph::default();
    assert_eq!(emit(&mut graph, &[(&[0], &[9])]), nothing());
    assert_eq!(emit(&mut graph, &[(&[1], &[9])]), nothing());
    assert_eq!(graph.classes(), 1);
    assert_eq!(emit(&mut graph, &[(&[9], &[])]), ready(&[0, 1, 9]));
}

#[test]
fn emit_zig_zag() {
    let mut graph = WaitingOnGraph::default();
    assert_eq!(emit(&mut graph, &[(&[0], &[1])]), nothing());
    assert_eq!(emit(&mut graph, &[(&[2], &[3])]), nothing());
    assert_eq!(graph.classes(), 2);
    assert_eq!(emit(&mut graph, &[(&[1], &[2])]), nothing());
    assert_eq!(graph.classes(), 1);
    assert_eq!(emit(&mut graph, &[(&[3], &[])]), ready(&[0, 1, 2, 3]));
    assert!(graph.is_empty());
}

#[test]
fn fail_empty() {
    assert!(WaitingOnGraph::default().fail(&[]).is_empty());
}

#[test]
fn fail_single() {
    assert_eq!(WaitingOnGraph::default().fail(&[4]), [4]);
}

#[test]
fn fail_emit_dependence_on_failure() {
    let mut graph = WaitingOnGraph::default();
    let failed = Emitted { defs: vec![1], deps: vec![], is_failed: true };
    assert_eq!(graph.emit([failed]).failed, [1]);
    assert!(graph.is_empty());
}

#[test]
fn fail_zig_zag() {
    let mut graph = WaitingOnGraph::default();
    assert_eq!(emit(&mut graph, &[(&[0], &[1])]), nothing());
    let failed = Emitted { defs: vec![1], deps: vec![], is_failed: true };
    let mut decided = graph.emit([failed]);
    decided.failed.sort_unstable();
    assert_eq!(decided, Decided { ready: vec![], failed: vec![0, 1] });
    assert!(graph.is_empty());
}

#[test]
fn a_removed_waiting_symbol_takes_its_dependants_along() {
    let mut graph = WaitingOnGraph::default();
    assert_eq!(emit(&mut graph, &[(&[0], &[1]), (&[1], &[2]), (&[5], &[2])]), nothing());
    let mut failed = graph.fail(&[1]);
    failed.sort_unstable();
    assert_eq!(failed, [0, 1], "5 reaches only 2");
    assert_eq!(emit(&mut graph, &[(&[2], &[])]), ready(&[2, 5]));
}

/// Nothing recurses over the length of a chain, and its length does not make a link dearer.
#[test]
fn chains_of_a_hundred_thousand() {
    const LENGTH: Node = 100_000;
    let mut graph = WaitingOnGraph::default();
    for node in 0..LENGTH - 1 {
        assert_eq!(emit(&mut graph, &[(&[node], &[node + 1])]), nothing());
    }
    let last = emit(&mut graph, &[(&[LENGTH - 1], &[])]);
    assert_eq!(last.ready.len() as u64, LENGTH);
    assert!(graph.is_empty());
    for node in LENGTH..2 * LENGTH {
        assert_eq!(emit(&mut graph, &[(&[node], &[node + 1])]), nothing());
    }
    assert_eq!(graph.fail(&[2 * LENGTH]).len() as u64, LENGTH + 1);
    assert!(graph.is_empty());
}
