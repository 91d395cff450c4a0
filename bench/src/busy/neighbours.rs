//! The loads: which neighbours a run has, and where both sides of a call run beside them.
//!
//! Invariant: a load that this machine cannot make says why, and is no error.

use std::fmt;

use crate::CpuPair;
use crate::busy::quota::Quota;
use crate::callers::caller::Placement;
use crate::processes::busy_loop::BusyLoops;
use crate::processes::compiling::Compiling;

/// A load, by its name on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Neighbours {
    pub(crate) name: &'static str,
    sides: Sides,
    work: Work,
}

/// The CPUs of both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sides {
    /// One each.
    TwoCpus,
    /// Both on the caller's.
    OneCpu,
    /// Wherever the scheduler likes.
    Unpinned,
}

/// The neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    /// Busy loops on the caller's CPU and on the server's.
    Pinned { caller: usize, server: usize },
    /// Busy loops wherever the scheduler likes.
    Free(usize),
    /// Two compilers.
    Build,
    /// None, but both sides together may use half a CPU.
    HalfCpu,
}

/// A load under way. Its neighbours end when it is dropped.
#[derive(Debug)]
pub(crate) struct Neighbourhood {
    pub(crate) placement: Placement,
    _loops: BusyLoops,
    _build: Option<Compiling>,
    _quota: Option<Quota>,
}

const fn pinned(name: &'static str, sides: Sides, caller: usize, server: usize) -> Neighbours {
    Neighbours { name, sides, work: Work::Pinned { caller, server } }
}

const fn unpinned(name: &'static str, loops: usize) -> Neighbours {
    Neighbours { name, sides: Sides::Unpinned, work: Work::Free(loops) }
}

impl Neighbours {
    /// All loads, in the order of a report.
    pub(crate) const ALL: [Neighbours; 15] = [
        pinned("idle", Sides::TwoCpus, 0, 0),
        pinned("caller-1", Sides::TwoCpus, 1, 0),
        pinned("executor-1", Sides::TwoCpus, 0, 1),
        Neighbours::EACH,
        pinned("each-2", Sides::TwoCpus, 2, 2),
        pinned("each-4", Sides::TwoCpus, 4, 4),
        pinned("one-cpu-0", Sides::OneCpu, 0, 0),
        Neighbours::ONE_CPU,
        pinned("one-cpu-2", Sides::OneCpu, 2, 0),
        unpinned("unpinned-0", 0),
        unpinned("unpinned-1", 1),
        unpinned("unpinned-2", 2),
        unpinned("unpinned-4", 4),
        Neighbours { name: "build", sides: Sides::TwoCpus, work: Work::Build },
        Neighbours { name: "half-cpu", sides: Sides::TwoCpus, work: Work::HalfCpu },
    ];
    /// A busy loop beside each side.
    pub(crate) const EACH: Neighbours = pinned("each-1", Sides::TwoCpus, 1, 1);
    /// Both sides and a busy loop on one CPU.
    pub(crate) const ONE_CPU: Neighbours = pinned("one-cpu-1", Sides::OneCpu, 1, 0);

    /// The loads without pinning that have loops.
    pub(crate) fn all_unpinned() -> impl Iterator<Item = Neighbours> {
        Neighbours::ALL.into_iter().filter(|load| matches!(load.work, Work::Free(1..)))
    }

    /// True if the sides are placed as in `other`, which has no neighbours: the load to compare with.
    pub(crate) fn is_idle_of(self, other: Neighbours) -> bool {
        let is_idle = matches!(self.work, Work::Pinned { caller: 0, server: 0 } | Work::Free(0));
        is_idle && self.sides == other.sides
    }

    /// The load with the CPUs of `cpus`, in words.
    pub(crate) fn description(self, cpus: CpuPair) -> String {
        let CpuPair { caller, server } = cpus;
        let sides = match self.sides {
            Sides::TwoCpus => format!("caller on CPU {caller}, server on CPU {server}"),
            Sides::OneCpu => format!("both sides on CPU {caller}"),
            Sides::Unpinned => "both sides unpinned".to_owned(),
        };
        format!("{sides}; {}", self.work)
    }

    /// Starts the neighbours.
    ///
    /// # Errors
    /// The reason why this machine cannot make the load.
    pub(crate) fn start(self, cpus: CpuPair) -> Result<Neighbourhood, String> {
        if self.sides == Sides::TwoCpus && cpus.is_shared() {
            return Err("there is one CPU only".to_owned());
        }
        let CpuPair { caller, server } = cpus;
        let (mut loops, mut build, mut quota) = (Vec::new(), None, None);
        match self.work {
            Work::Pinned { caller: beside_caller, server: beside_server } => {
                loops.resize(beside_caller, Some(caller));
                loops.resize(beside_caller + beside_server, Some(server));
            }
            Work::Free(count) => loops.resize(count, None),
            Work::Build => build = Some(Compiling::start()?),
            Work::HalfCpu => quota = Some(Quota::start()?),
        }
        let placement = Placement {
            cpus: match self.sides {
                Sides::TwoCpus => Some(cpus),
                Sides::OneCpu => Some(CpuPair { server: caller, ..cpus }),
                Sides::Unpinned => None,
            },
            group: quota.as_ref().map(|quota| quota.folder().to_owned()),
        };
        let loops = BusyLoops::start(&loops).map_err(|error| error.to_string())?;
        Ok(Neighbourhood { placement, _loops: loops, _build: build, _quota: quota })
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Work::Pinned { caller: 0, server: 0 } | Work::Free(0) => f.write_str("no neighbours"),
            Work::Pinned { caller, server: 0 } => {
                write!(f, "busy loops beside the caller: {caller}")
            }
            Work::Pinned { caller: 0, server } => {
                write!(f, "busy loops beside the server: {server}")
            }
            Work::Pinned { caller, .. } => write!(f, "busy loops beside each: {caller}"),
            Work::Free(loops) => write!(f, "unpinned busy loops: {loops}"),
            Work::Build => f.write_str("two C compilers, unpinned"),
            Work::HalfCpu => f.write_str("half a CPU for both together, by a control group"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_load_has_a_name_of_its_own_and_one_to_compare_with() {
        let names: BTreeSet<_> = Neighbours::ALL.iter().map(|load| load.name).collect();
        assert_eq!(names.len(), Neighbours::ALL.len());
        for load in Neighbours::ALL {
            let idle = Neighbours::ALL.iter().filter(|idle| idle.is_idle_of(load));
            assert_eq!(idle.count(), 1, "{}", load.name);
        }
        assert_eq!(Neighbours::all_unpinned().count(), 3);
    }

    #[test]
    fn a_load_says_where_its_loops_are() {
        let cpus = CpuPair { caller: 0, server: 1 };
        for (name, shown) in [
            ("idle", "caller on CPU 0, server on CPU 1; no neighbours"),
            ("caller-1", "caller on CPU 0, server on CPU 1; busy loops beside the caller: 1"),
            ("each-4", "caller on CPU 0, server on CPU 1; busy loops beside each: 4"),
            ("one-cpu-2", "both sides on CPU 0; busy loops beside the caller: 2"),
            ("unpinned-4", "both sides unpinned; unpinned busy loops: 4"),
        ] {
            let load = Neighbours::ALL.into_iter().find(|load| load.name == name).unwrap();
            assert_eq!(load.description(cpus), shown);
        }
    }

    #[test]
    fn two_cpus_are_wanted_where_there_is_one() {
        let why = Neighbours::EACH.start(CpuPair { caller: 0, server: 0 }).unwrap_err();
        assert_eq!(why, "there is one CPU only");
    }
}
