//! The rows of a run, out of all rows.
//!
//! Invariant: a name that no row has is an error before anything is started.

use std::time::Duration;

use crate::measure::budget::Share;
use crate::plan::Plan;
use crate::plan::lineup::{Asked, RowKind};
use crate::{Result, Versus};

/// A part of a run; they come in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Hot,
    OneCpu,
    Cold,
    Removal,
    Life,
    HotSwap,
    InProcess,
    Start,
    Idle,
    Busy,
    Llvm,
    Lljit,
}

/// The parts of a run, and the rows of its contests; a contest without rows is no part.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Selection {
    pub(crate) parts: Vec<Part>,
    pub(crate) hot: Vec<RowKind>,
    pub(crate) one_cpu: Vec<RowKind>,
    pub(crate) cold: Vec<RowKind>,
}

impl Part {
    const ALL: [Part; 12] = [
        Part::Hot,
        Part::OneCpu,
        Part::Cold,
        Part::Removal,
        Part::Life,
        Part::HotSwap,
        Part::InProcess,
        Part::Start,
        Part::Idle,
        Part::Busy,
        Part::Llvm,
        Part::Lljit,
    ];

    /// Its name in the progress bar.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Part::Hot => "hot calls",
            Part::OneCpu => "one CPU",
            Part::Cold => "cold calls",
            Part::Removal => "removal",
            Part::Life => "links",
            Part::HotSwap => "hot swap",
            Part::InProcess => "in process",
            Part::Start => "starts",
            Part::Idle => "idle CPU",
            Part::Busy => "busy CPUs",
            Part::Llvm => "LLVM",
            Part::Lljit => "LLJIT",
        }
    }

    /// The time that the part needs. The weights of all parts are percents.
    pub(crate) fn share(self) -> Share {
        let (least_ms, weight) = match self {
            Part::Hot => (150, 52.0),
            Part::OneCpu | Part::Cold => (100, 8.0),
            Part::Removal => (400, 5.0),
            Part::Life => (250, 7.0),
            Part::HotSwap | Part::InProcess => (20, 1.0),
            Part::Start => (60, 2.0),
            Part::Idle => (160, 4.0),
            Part::Busy => (300, 4.0),
            Part::Llvm => (200, 3.0),
            Part::Lljit => (300, 5.0),
        };
        Share { least: Duration::from_millis(least_ms), weight }
    }

    /// The first words of its lines in the report; contests have rows instead.
    fn lines(self) -> &'static [&'static str] {
        match self {
            Part::Hot | Part::OneCpu | Part::Cold => &[],
            Part::Removal => &["remove"],
            Part::Life => &["memory", "link"],
            Part::HotSwap => &["hot swap"],
            Part::InProcess => &["in process"],
            Part::Start => &["start"],
            Part::Idle => &["idle"],
            Part::Busy => &["busy"],
            Part::Llvm => &["llvm"],
            Part::Lljit => &["lljit"],
        }
    }
}

impl Selection {
    /// The rows that `plan` asks for. The floors are in each contest of calls back to back that has any other row, because
    /// they are the unit.
    ///
    /// # Errors
    /// For a name in `plan.only` that no row and no line has.
    pub(crate) fn new(plan: &Plan) -> Result<Selection> {
        let all = Selection::everything(plan, &plan.versus);
        if plan.only.is_empty() {
            return Ok(all);
        }
        // A transport that is named is measured as if it were in `versus`.
        let more = Selection::everything(plan, &Versus::all());
        let known = more.names(plan);
        let mut only = Vec::new();
        for name in &plan.only {
            let found = known.iter().find(|known| known.eq_ignore_ascii_case(name.trim()));
            only.push(found.ok_or_else(|| {
                format!("{name}: no row has this name; there are: {}", known.join(", "))
            })?);
        }
        let is_wanted = |row: &RowKind| only.contains(&&row.name(plan.in_flight));
        let with_floors = |rows: Vec<RowKind>| {
            let keep = |row: &RowKind| RowKind::FLOORS.contains(row) || is_wanted(row);
            if rows.iter().any(is_wanted) {
                rows.into_iter().filter(keep).collect()
            } else {
                Vec::new()
            }
        };
        let (hot, one_cpu) = (with_floors(more.hot), with_floors(more.one_cpu));
        let cold: Vec<_> = more.cold.into_iter().filter(is_wanted).collect();
        let is_named = |part: &Part| match part {
            Part::Hot => !hot.is_empty(),
            Part::OneCpu => !one_cpu.is_empty(),
            Part::Cold => !cold.is_empty(),
            other => only.iter().any(|name| other.lines().contains(&name.as_str())),
        };
        let parts = more.parts.iter().copied().filter(is_named).collect();
        Ok(Selection { parts, hot, one_cpu, cold })
    }

    /// All rows of a plan with these transports.
    fn everything(plan: &Plan, versus: &[Versus]) -> Selection {
        let Plan { sizes, threads, in_flight, cpus, command, .. } = plan;
        let asked = Asked { versus, sizes, threads: *threads, in_flight: *in_flight };
        let is_part = |part: &Part| match part {
            Part::OneCpu => !cpus.is_shared(),
            Part::Llvm | Part::Lljit => command.is_some(),
            _ => true,
        };
        Selection {
            parts: Part::ALL.into_iter().filter(is_part).collect(),
            hot: RowKind::hot(asked),
            one_cpu: RowKind::one_cpu(),
            cold: RowKind::cold(),
        }
    }

    /// The names of all rows, and the first words of all lines, each once.
    fn names(&self, plan: &Plan) -> Vec<String> {
        let rows = [&self.hot, &self.one_cpu, &self.cold].into_iter().flatten();
        let rows = rows.map(|row| row.name(plan.in_flight));
        let lines = self.parts.iter().flat_map(|part| part.lines());
        let mut names = Vec::new();
        for name in rows.chain(lines.map(|&name| name.to_owned())) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CpuPair, Effort};

    fn plan(only: &[&str]) -> Plan {
        let effort = Effort { rounds_min: 1, duration: Duration::ZERO };
        let mut plan = Plan::new(effort).unwrap();
        plan.cpus = CpuPair { caller: 0, server: 1 };
        plan.only = only.iter().map(|&name| name.to_owned()).collect();
        plan
    }

    fn names(rows: &[RowKind]) -> Vec<String> {
        rows.iter().map(|row| row.name(1)).collect()
    }

    #[test]
    fn all_rows_run_unless_some_are_named() {
        let all = Selection::new(&plan(&[])).unwrap();
        assert_eq!(all.parts, Part::ALL[..10]);
        assert_eq!(names(&all.hot).len(), 12);
        assert!(names(&all.hot).ends_with(&["pipe pair".to_owned(), "Unix stream".to_owned()]));
        let weights = Part::ALL.iter().map(|part| part.share().weight).sum::<f64>();
        assert!((weights - 100.0).abs() < 1e-9, "{weights}");
    }

    #[test]
    fn named_rows_run_in_each_contest_that_has_them_with_the_floors() {
        let some = Selection::new(&plan(&["futex", " UNIX stream"])).unwrap();
        assert_eq!(some.parts, [Part::Hot, Part::OneCpu, Part::Cold]);
        let floors = ["two-line floor", "one-line floor"];
        assert_eq!(names(&some.hot), [&floors[..], &["Unix stream", "futex"]].concat());
        assert_eq!(names(&some.one_cpu), [&floors[..], &["futex"]].concat());
        assert_eq!(names(&some.cold), ["futex", "Unix stream"]);
        let lines = Selection::new(&plan(&["link", "idle"])).unwrap();
        assert_eq!(lines.parts, [Part::Life, Part::Idle]);
        assert!(lines.hot.is_empty());
    }

    #[test]
    fn a_name_that_no_row_has_is_an_error_that_lists_the_names() {
        let error = Selection::new(&plan(&["null call", "fax"])).unwrap_err().to_string();
        let start =
            "fax: no row has this name; there are: two-line floor, one-line floor, null call, ";
        assert!(error.starts_with(start), "{error}");
        for name in ["TCP", "null call spinning", "hot swap", "memory"] {
            assert_eq!(error.matches(&format!(", {name}")).count(), 1, "{name} in {error}");
        }
    }
}
