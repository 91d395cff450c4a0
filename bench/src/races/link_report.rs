//! The findings of races against linkers: as text, as JSON, and as a picture of the time per object.
//!
//! Invariant: each ratio compares two times of one round.

use std::fmt;

use plotters::prelude::*;
use serde::Serialize;

use crate::{LlvmReport, Machine, Origin, Result, Spread};

/// The figures of all programs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LinkReport {
    /// The version of the form of the JSON, as for [`Report`](crate::Report).
    pub schema: u32,
    /// The program and the flags.
    #[serde(flatten)]
    pub origin: Origin,
    /// The programs that were linked and run.
    pub programs: Vec<LinkedProgram>,
    /// Linkers that are not installed.
    pub absent: Vec<&'static str>,
    /// The user's program by LLVM's command, in turns with ours.
    pub llvm: Option<LlvmReport>,
}

/// The figures of one program.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LinkedProgram {
    /// Its name; "program" for the user's.
    pub name: String,
    /// How many objects and archives it has.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// The number of generated objects, for the time per object.
    pub objects: Option<u32>,
    /// Rounds, each with one run of every row.
    pub rounds: usize,
    /// `farcall run` first.
    pub rows: Vec<LinkRow>,
}

/// One way to link and run a program.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LinkRow {
    /// `farcall run`, or a linker.
    pub name: String,
    /// Milliseconds from the start of the first command to the end of the last one.
    pub ms: Spread,
    /// The time of `farcall run` divided by this one, round by round.
    pub ratio: Spread,
}

impl LinkReport {
    /// The report as one JSON object on one line, without a final newline.
    ///
    /// # Errors
    /// None is known; the writer of the library could fail.
    pub fn to_json(&self) -> Result<String> {
        Ok(serde_json::to_string(self)?)
    }

    /// The time per object against the number of generated objects, as SVG text. Both axes are logarithmic.
    ///
    /// # Errors
    /// When fewer than two such programs were linked, or the library cannot draw it.
    pub fn to_svg(&self) -> Result<String> {
        let grown: Vec<_> =
            self.programs.iter().filter_map(|one| Some((one.objects?, one))).collect();
        let [(least, first), .., (most, _)] = &grown[..] else {
            return Err("a picture needs two programs of generated objects".into());
        };
        let curve = |row: usize| {
            let points = grown.iter().map(move |(objects, program)| {
                (*objects, program.rows[row].ms.median * 1e3 / f64::from(*objects))
            });
            points.collect::<Vec<_>>()
        };
        let curves: Vec<_> = (0..first.rows.len()).map(curve).collect();
        let highest = curves.iter().flatten().map(|(_, us)| *us).fold(1.0, f64::max);
        let lowest = curves.iter().flatten().map(|(_, us)| *us).fold(highest, f64::min);
        let mut svg = String::new();
        let root = SVGBackend::with_string(&mut svg, (900, 560)).into_drawing_area();
        let drawn = || -> Result<()> {
            root.fill(&WHITE)?;
            let mut chart = ChartBuilder::on(&root)
                .caption(format!("link and run; {}", Machine::read()), ("sans-serif", 14))
                .margin(12)
                .x_label_area_size(40)
                .y_label_area_size(64)
                .build_cartesian_2d(
                    (*least..*most).log_scale(),
                    (lowest / 1.5..highest * 1.5).log_scale(),
                )?;
            chart.configure_mesh().x_desc("objects").y_desc("us per object, medians").draw()?;
            for (at, (curve, row)) in curves.iter().zip(&first.rows).enumerate() {
                let colour = Palette99::pick(at).to_rgba();
                let line = LineSeries::new(curve.iter().copied(), colour.stroke_width(2));
                let legend = move |(x, y)| PathElement::new(vec![(x, y), (x + 18, y)], colour);
                chart.draw_series(line)?.label(row.name.clone()).legend(legend);
                let points = curve.iter().map(|point| Circle::new(*point, 3, colour.filled()));
                chart.draw_series(points)?;
            }
            chart.configure_series_labels().background_style(WHITE).border_style(BLACK).draw()?;
            root.present()?;
            Ok(())
        };
        drawn().map_err(|error| format!("drawing the picture: {error}"))?;
        drop(root);
        Ok(svg)
    }
}

impl fmt::Display for LinkReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for program in &self.programs {
            let LinkedProgram { name, files, bytes, rounds, .. } = program;
            writeln!(f, "{name}: {files} files of {bytes} bytes, {rounds} rounds in turns")?;
            for (at, row) in program.rows.iter().enumerate() {
                let Spread { lower_quartile: low, median, upper_quartile: high } = row.ms;
                write!(f, "  {:<16}{median:>10.2} ms ({low:.2} to {high:.2})", row.name)?;
                if let Some(objects) = program.objects {
                    write!(f, "{:>9.2} us per object", median * 1e3 / f64::from(objects))?;
                }
                if at > 0 {
                    let Spread { lower_quartile: low, median, upper_quartile: high } = row.ratio;
                    write!(f, "   farcall takes {median:.2} of it ({low:.2} to {high:.2})")?;
                }
                writeln!(f)?;
            }
        }
        writeln!(f, "medians and quartiles")?;
        if !self.absent.is_empty() {
            writeln!(f, "not installed: {}", self.absent.join(", "))?;
        }
        match &self.llvm {
            Some(llvm) => write!(f, "{llvm}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(objects: Option<u32>, ms: f64) -> LinkedProgram {
        let row = |name: &str, ms, ratio| LinkRow {
            name: name.to_owned(),
            ms: Spread::exact(ms),
            ratio: Spread::exact(ratio),
        };
        LinkedProgram {
            name: objects.map_or("program".to_owned(), |count| format!("objects-{count}")),
            files: 3,
            bytes: 4567,
            objects,
            rounds: 9,
            rows: vec![row("farcall run", ms, 1.0), row("wild + exec", 2.0 * ms, 0.5)],
        }
    }

    fn report(programs: Vec<LinkedProgram>) -> LinkReport {
        let origin = Origin::new(None, Vec::new());
        LinkReport { schema: 1, origin, programs, absent: vec!["mold"], llvm: None }
    }

    #[test]
    fn the_text_has_times_ratios_and_what_is_absent() {
        let text = report(vec![program(None, 4.0), program(Some(10), 5.0)]).to_string();
        let expected = "program: 3 files of 4567 bytes, 9 rounds in turns\n  \
             farcall run           4.00 ms (4.00 to 4.00)\n  \
             wild + exec           8.00 ms (8.00 to 8.00)   farcall takes 0.50 of it (0.50 to 0.50)\n\
             objects-10: 3 files of 4567 bytes, 9 rounds in turns\n  \
             farcall run           5.00 ms (5.00 to 5.00)   500.00 us per object\n  \
             wild + exec          10.00 ms (10.00 to 10.00)  1000.00 us per object   \
             farcall takes 0.50 of it (0.50 to 0.50)\n\
             medians and quartiles\nnot installed: mold\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn the_picture_has_a_curve_for_each_way() {
        assert!(report(vec![program(Some(10), 5.0)]).to_svg().is_err());
        let grown = vec![program(None, 1.0), program(Some(10), 5.0), program(Some(1_000), 60.0)];
        let svg = report(grown).to_svg().unwrap();
        assert!(svg.contains("farcall run") && svg.contains("wild + exec"), "{svg}");
        assert_eq!(svg.matches("<circle").count(), 4);
    }
}
