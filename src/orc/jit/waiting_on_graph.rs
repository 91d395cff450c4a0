//! The graph of dependencies: it decides when a symbol is ready, and which symbols fail with another one.
//!
//! An emitted symbol is ready when every symbol that it reaches, over its dependencies, is emitted. Cycles are usual: two
//! functions that call each other become ready together. So counting dependencies does not work: a waiting symbol must know
//! whether it still reaches *any* symbol that is not emitted. Each waiting symbol therefore *watches* one such symbol. Until
//! the watched symbol is emitted, nothing can change. After that, each watcher looks for another symbol to watch. A watcher
//! that finds none is ready.
//!
//! Symbols are emitted in *groups*, which share one list of dependencies. All groups that watch the same symbol form a *class*.
//! If a group is emitted and still waits, the class that watched it now watches the group's own watch. The class reaches all
//! that the group reaches. So a chain that is emitted from its head costs 1 step per link, not a walk each.
//!
//! Invariant: every group here watches a symbol that it reaches and that is neither emitted nor failed. The graph drops
//! symbols that are ready or have failed.

use std::collections::{HashMap, HashSet};

/// A symbol, by a number that is never used again.
pub(in crate::jit) type Node = u64;

/// The emitted symbols that wait, and their dependencies.
#[derive(Debug, Default)]
pub(in crate::jit) struct WaitingOnGraph {
    groups: HashMap<GroupId, Group>,
    /// The groups of emitted symbols.
    group_of: HashMap<Node, GroupId>,
    /// The groups that depend on each symbol that is not ready. Removed groups may still be listed.
    dependents: HashMap<Node, Vec<GroupId>>,
    classes: HashMap<ClassId, Class>,
    class_of_watch: HashMap<Node, ClassId>,
    next: u64,
}

type GroupId = u64;
type ClassId = u64;

/// Emitted symbols that wait.
#[derive(Debug)]
struct Group {
    defs: Vec<Node>,
    /// Some may be ready: these have no entry in `dependents`.
    deps: Vec<Node>,
    class: ClassId,
}

/// Groups that watch the same symbol. Removed groups may still be listed.
#[derive(Debug)]
struct Class {
    watch: Node,
    groups: Vec<GroupId>,
    /// The number of groups that are not removed.
    live: usize,
}

/// Symbols that are emitted together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::jit) struct Emitted {
    pub(in crate::jit) defs: Vec<Node>,
    /// The symbols that all of them depend on and that are not ready.
    pub(in crate::jit) deps: Vec<Node>,
    /// True if they depend on a symbol that has failed.
    pub(in crate::jit) is_failed: bool,
}

/// The symbols that an emission has decided.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::jit) struct Decided {
    pub(in crate::jit) ready: Vec<Node>,
    pub(in crate::jit) failed: Vec<Node>,
}

/// The state of a dependency.
enum Standing {
    Ready,
    Watched(Node),
    Undecided,
}

impl WaitingOnGraph {
    /// Emits symbols, each for the first time. Returns the symbols that are ready with that, and those that fail.
    pub(in crate::jit) fn emit(&mut self, groups: impl IntoIterator<Item = Emitted>) -> Decided {
        let mut decided = Decided::default();
        // The decisions for earlier groups of this emission.
        let (mut ready, mut failed) = (HashSet::<Node>::new(), HashSet::<Node>::new());
        for mut group in groups {
            group.deps.retain(|dep| !ready.contains(dep));
            let (readies, failures) = (decided.ready.len(), decided.failed.len());
            if group.is_failed || group.deps.iter().any(|dep| failed.contains(dep)) {
                decided.failed.extend(self.fail(&group.defs));
            } else if !group.defs.is_empty() {
                self.emit_one(group, &mut decided.ready);
            }
            ready.extend(&decided.ready[readies..]);
            failed.extend(&decided.failed[failures..]);
        }
        decided
    }

    /// Fails or removes symbols. Returns the symbols that fail, these included.
    pub(in crate::jit) fn fail(&mut self, nodes: &[Node]) -> Vec<Node> {
        let mut failed = Vec::new();
        let mut seen = HashSet::new();
        let mut queue = nodes.to_vec();
        while let Some(node) = queue.pop() {
            if !seen.insert(node) {
                continue;
            }
            failed.push(node);
            if let Some(group) = self.group_of.get(&node).copied() {
                self.remove_group(group, &mut queue);
            }
            for group in self.dependents.remove(&node).unwrap_or_default() {
                self.remove_group(group, &mut queue);
            }
            // Each group that watched it reaches it, and so fails as well.
            if let Some(class) = self.class_of_watch.remove(&node) {
                self.classes.remove(&class);
            }
        }
        failed
    }

    /// True when an emitted symbol waits for `node`.
    pub(in crate::jit) fn has_dependents(&self, node: Node) -> bool {
        let dependents = self.dependents.get(&node).into_iter().flatten();
        dependents.copied().any(|group| self.groups.contains_key(&group))
    }

    /// True when nothing waits.
    #[cfg(test)]
    pub(in crate::jit) fn is_empty(&self) -> bool {
        self.groups.is_empty() && self.group_of.is_empty() && self.classes.is_empty()
    }

    /// The number of watched symbols, each of which has one class.
    #[cfg(test)]
    pub(in crate::jit) fn classes(&self) -> usize {
        self.classes.len()
    }

    fn emit_one(&mut self, group: Emitted, ready: &mut Vec<Node>) {
        let Emitted { defs, mut deps, .. } = group;
        deps.retain(|dep| !defs.contains(dep));
        deps.sort_unstable();
        deps.dedup();
        let freed: Vec<ClassId> =
            defs.iter().filter_map(|def| self.class_of_watch.remove(def)).collect();
        if deps.is_empty() && freed.is_empty() {
            // No emitted symbol depends on these: it would watch them, or depend on a symbol that does.
            defs.iter().for_each(|def| drop(self.dependents.remove(def)));
            ready.extend(defs);
            return;
        }
        let id = self.number();
        for dep in &deps {
            let groups = &self.groups;
            let dependents = self.dependents.entry(*dep).or_default();
            push_live(dependents, id, |group| groups.contains_key(&group));
        }
        for def in &defs {
            self.group_of.insert(*def, id);
            self.dependents.entry(*def).or_default();
        }
        self.groups.insert(id, Group { defs, deps, class: NO_CLASS });
        let is_freed = |class: ClassId| freed.contains(&class) || class == NO_CLASS;
        match self.look_for_watch(id, is_freed) {
            Some(watch) => {
                // All groups that watched this group's symbols reach it, and all that it reaches.
                let class = freed.into_iter().fold(None, |class, other| self.merge(class, other));
                let class = match (class, self.class_of_watch.get(&watch).copied()) {
                    (class, Some(other)) => self.merge(class, other),
                    (class, None) => class,
                };
                self.join(id, class, watch);
            }
            None => self.decide(id, &freed, ready),
        }
    }

    /// Finds new watches for the group and for all groups that watched its symbols. Groups without one are ready.
    fn decide(&mut self, id: GroupId, freed: &[ClassId], ready: &mut Vec<Node>) {
        let classes = freed.iter().filter_map(|class| self.classes.remove(class));
        let watchers = classes.flat_map(|class| class.groups);
        let all: Vec<GroupId> = watchers.filter(|id| self.groups.contains_key(id)).collect();
        let mut undecided: HashSet<GroupId> = all.iter().copied().collect();
        undecided.insert(id);
        let is_freed = |class: ClassId| freed.contains(&class) || class == NO_CLASS;
        // Groups that directly depend on a symbol that is not emitted, or on a group of a class that keeps its watch.
        let mut found: Vec<(GroupId, Node)> = Vec::new();
        for group in all.into_iter().chain([id]) {
            if let Some(watch) = self.look_for_watch(group, is_freed) {
                undecided.remove(&group);
                found.push((group, watch));
            }
        }
        // Groups that depend on those.
        while let Some((group, watch)) = found.pop() {
            let defs = self.groups.get(&group).into_iter().flat_map(|group| &group.defs);
            let dependents = defs.filter_map(|def| self.dependents.get(def)).flatten();
            let waiting = dependents.copied().filter(|other| undecided.remove(other));
            found.extend(waiting.map(|other| (other, watch)));
            self.join(group, self.class_of_watch.get(&watch).copied(), watch);
        }
        for group in undecided {
            let Some(Group { defs, .. }) = self.groups.remove(&group) else { continue };
            for def in &defs {
                self.group_of.remove(def);
                self.dependents.remove(def);
            }
            ready.extend(defs);
        }
    }

    /// A symbol that is not emitted and that a group reaches without the groups of freed classes.
    fn look_for_watch(&mut self, id: GroupId, is_freed: impl Fn(ClassId) -> bool) -> Option<Node> {
        let mut deps = std::mem::take(&mut self.groups.get_mut(&id)?.deps);
        let mut watch = None;
        let mut at = deps.len();
        while let Some(before) = at.checked_sub(1) {
            at = before;
            match self.standing(deps[at], &is_freed) {
                Standing::Ready => drop(deps.swap_remove(at)),
                Standing::Undecided => {}
                Standing::Watched(node) => {
                    watch = Some(node);
                    break;
                }
            }
        }
        self.groups.get_mut(&id)?.deps = deps;
        watch
    }

    fn standing(&self, dep: Node, is_freed: impl Fn(ClassId) -> bool) -> Standing {
        if !self.dependents.contains_key(&dep) {
            return Standing::Ready;
        }
        let group = self.group_of.get(&dep).and_then(|group| self.groups.get(group));
        let Some(group) = group else { return Standing::Watched(dep) };
        match self.classes.get(&group.class) {
            Some(class) if !is_freed(group.class) => Standing::Watched(class.watch),
            _ => Standing::Undecided,
        }
    }

    /// Makes one class of two, by adding the smaller to the larger.
    fn merge(&mut self, one: Option<ClassId>, other: ClassId) -> Option<ClassId> {
        let Some(one) = one.filter(|one| *one != other) else { return Some(other) };
        let size = |id: ClassId| self.classes.get(&id).map_or(0, |class| class.groups.len());
        let (small, large) = if size(one) < size(other) { (one, other) } else { (other, one) };
        if let Some(moved) = self.classes.remove(&small) {
            for group in &moved.groups {
                if let Some(group) = self.groups.get_mut(group) {
                    group.class = large;
                }
            }
            let class = self.classes.get_mut(&large)?;
            class.groups.extend(moved.groups);
            class.live += moved.live;
        }
        Some(large)
    }

    /// Adds a group to a class, which watches `watch` from now on; a new class if there is none.
    fn join(&mut self, id: GroupId, class: Option<ClassId>, watch: Node) {
        let class = class.unwrap_or_else(|| self.number());
        self.class_of_watch.insert(watch, class);
        let groups = &self.groups;
        let members =
            self.classes.entry(class).or_insert_with(|| Class { watch, groups: vec![], live: 0 });
        members.watch = watch;
        members.live += 1;
        push_live(&mut members.groups, id, |group| groups.contains_key(&group));
        if let Some(group) = self.groups.get_mut(&id) {
            group.class = class;
        }
    }

    fn remove_group(&mut self, id: GroupId, failed: &mut Vec<Node>) {
        let Some(group) = self.groups.remove(&id) else { return };
        for def in &group.defs {
            self.group_of.remove(def);
        }
        failed.extend(group.defs);
        let Some(class) = self.classes.get_mut(&group.class) else { return };
        class.live -= 1;
        if class.live == 0 {
            self.class_of_watch.remove(&class.watch);
            self.classes.remove(&group.class);
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

/// No class has this number.
const NO_CLASS: ClassId = 0;

/// Lists shorter than this may keep removed groups.
const SHORT_LIST: usize = 16;

/// Adds to a list. Each time the list has doubled it drops the removed groups.
fn push_live(list: &mut Vec<GroupId>, id: GroupId, is_live: impl Fn(GroupId) -> bool) {
    if list.len() >= SHORT_LIST && list.len().is_power_of_two() {
        list.retain(|group| is_live(*group));
    }
    list.push(id);
}
