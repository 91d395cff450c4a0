//! Random emissions and failures: the graph of dependencies agrees with a model that follows every path every
//! time.
//!
//! Invariant: the comparison is also made with a graph that is not told everything, and finds that.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::jit::waiting_on_graph::{Emitted, Node, WaitingOnGraph};

const NODES: usize = 16;
const CASES: u32 = 10_000;

#[derive(Debug, Clone)]
enum Step {
    /// Groups: which nodes, and what they depend on.
    Emit(Vec<(u16, u16)>),
    Fail(u16),
}

/// The facts that the graph is not told.
#[derive(Clone, Copy, PartialEq)]
enum Planted {
    Nothing,
    /// The last dependency of a group.
    Dependency,
    /// The symbols that fail after they were emitted.
    Failure,
}

#[derive(Debug, Clone, PartialEq)]
enum Fate {
    Pending,
    /// Emitted, with what it depends on and the others of its group.
    Waiting(BTreeSet<usize>),
    Ready,
    Failed,
}

fn set(bits: u16) -> BTreeSet<usize> {
    (0..NODES).filter(|node| bits >> node & 1 == 1).collect()
}

struct Model(Vec<Fate>);

impl Model {
    /// The nodes with a path to one of which `end` is true, over what waits.
    fn reach(&self, end: impl Fn(&Fate) -> bool) -> BTreeSet<usize> {
        let reaches = |from: usize| {
            let (mut seen, mut queue) = (BTreeSet::from([from]), vec![from]);
            while let Some(node) = queue.pop() {
                if end(&self.0[node]) {
                    return true;
                }
                if let Fate::Waiting(deps) = &self.0[node] {
                    queue.extend(deps.iter().copied().filter(|dep| seen.insert(*dep)));
                }
            }
            false
        };
        (0..NODES).filter(|node| reaches(*node)).collect()
    }

    /// The symbols that have become ready, and the failed ones.
    fn outcome(&mut self) -> (BTreeSet<usize>, BTreeSet<usize>) {
        let failed = self.reach(|fate| *fate == Fate::Failed);
        let failed: BTreeSet<usize> =
            failed.into_iter().filter(|node| matches!(self.0[*node], Fate::Waiting(_))).collect();
        failed.iter().for_each(|node| self.0[*node] = Fate::Failed);
        let blocked = self.reach(|fate| *fate == Fate::Pending);
        let ready: BTreeSet<usize> = (0..NODES)
            .filter(|node| matches!(self.0[*node], Fate::Waiting(_)) && !blocked.contains(node))
            .collect();
        ready.iter().for_each(|node| self.0[*node] = Fate::Ready);
        (ready, failed)
    }
}

fn nodes(set: &BTreeSet<usize>) -> Vec<Node> {
    set.iter().map(|node| *node as Node).collect()
}

fn numbers(nodes: &[Node]) -> BTreeSet<usize> {
    nodes.iter().filter_map(|node| usize::try_from(*node).ok()).collect()
}

fn agree(steps: &[Step], planted: Planted) -> Result<(), TestCaseError> {
    let mut graph = WaitingOnGraph::default();
    let mut model = Model(vec![Fate::Pending; NODES]);
    for step in steps {
        let (ready, failed) = match step {
            Step::Emit(groups) => {
                let mut emitted = Vec::new();
                let before = model.0.clone();
                for (defs, deps) in groups {
                    let mut defs = set(*defs);
                    defs.retain(|node| model.0[*node] == Fate::Pending);
                    let deps = set(*deps);
                    let told = deps.iter().copied();
                    let told =
                        told.filter(|dep| !matches!(before[*dep], Fate::Ready | Fate::Failed));
                    let mut told: Vec<Node> = told.map(|node| node as Node).collect();
                    if planted == Planted::Dependency {
                        told.pop();
                    }
                    let is_failed = deps.iter().any(|dep| before[*dep] == Fate::Failed);
                    emitted.push(Emitted { defs: nodes(&defs), deps: told, is_failed });
                    for node in &defs {
                        model.0[*node] = Fate::Waiting(&deps | &defs);
                    }
                }
                let decided = graph.emit(emitted);
                (decided.ready, decided.failed)
            }
            Step::Fail(bits) => {
                let mut bits = set(*bits);
                bits.retain(|node| !matches!(model.0[*node], Fate::Ready | Fate::Failed));
                let is_told = planted != Planted::Failure;
                let failed = if is_told { graph.fail(&nodes(&bits)) } else { nodes(&bits) };
                let waiting = |node: &&usize| matches!(model.0[**node], Fate::Waiting(_));
                // All of a group go together.
                let groups: Vec<usize> = bits.iter().filter(waiting).copied().collect();
                let own = &numbers(&failed) - &bits;
                bits.iter().for_each(|node| model.0[*node] = Fate::Failed);
                let (ready, others) = model.outcome();
                prop_assert!(ready.is_empty());
                prop_assert_eq!(own, others, "with {:?} of {:?}", groups, model.0);
                continue;
            }
        };
        let (model_ready, model_failed) = model.outcome();
        let (ready_set, failed_set) = (numbers(&ready), numbers(&failed));
        let counts = (ready_set.len(), failed_set.len());
        prop_assert_eq!((ready_set, failed_set), (model_ready, model_failed));
        prop_assert_eq!((ready.len(), failed.len()), counts, "each is reported once");
    }
    let is_waiting = model.0.iter().any(|fate| matches!(fate, Fate::Waiting(_)));
    prop_assert_eq!(graph.is_empty(), !is_waiting);
    Ok(())
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let sparse = || (any::<u16>(), any::<u16>(), any::<u16>()).prop_map(|(a, b, c)| a & b & c);
    let deps = prop_oneof![3 => sparse(), 1 => any::<u16>(), 1 => Just(0)];
    let group = (sparse(), deps);
    let emit = proptest::collection::vec(group, 1..4).prop_map(Step::Emit);
    let fail = (sparse(), any::<u16>()).prop_map(|(a, b)| Step::Fail(a & b));
    proptest::collection::vec(prop_oneof![6 => emit, 1 => fail], 1..16)
}

fn run(cases: u32, planted: Planted) -> Result<(), String> {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new(config).run(&steps(), |steps| agree(&steps, planted));
    outcome.map_err(|error| error.to_string())
}

#[test]
fn random_emissions_agree_with_the_model() {
    run(CASES, Planted::Nothing).unwrap();
    println!("waiting-on graph against its model: {CASES} cases");
}

#[test]
fn a_graph_that_is_not_told_of_a_dependency_is_found() {
    run(CASES, Planted::Dependency).unwrap_err();
}

#[test]
fn a_graph_that_is_not_told_of_a_failure_is_found() {
    run(CASES, Planted::Failure).unwrap_err();
}
