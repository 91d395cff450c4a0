//! The graph of who waits for whom: LLVM's cases by their names, as far as they are about what is seen from outside, and
//! long chains.

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
    // What is ready is not named among dependencies: whoever asks leaves it out.
    let mut graph = WaitingOnGraph::default();
    assert_eq!(emit(&mut graph, &[(&[0], &[]), (&[1], &[0])]), ready(&[0, 1]));
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
    assert_eq!(emit(&mut graph, &[(&[9], &[])]), ready(&[0, 1, 9]));
}

#[test]
fn emit_zig_zag() {
    let mut graph = WaitingOnGraph::default();
    assert_eq!(emit(&mut graph, &[(&[0], &[1])]), nothing());
    assert_eq!(emit(&mut graph, &[(&[2], &[3])]), nothing());
    assert_eq!(emit(&mut graph, &[(&[1], &[2])]), nothing());
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
fn what_goes_away_while_it_waits_takes_along_what_depends_on_it() {
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
