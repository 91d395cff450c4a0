//! The latencies of a report as a picture: small panels of a few curves each, regime by regime.
//!
//! A point says which latency a share of a row's calls stayed within. Both axes are logarithmic. The lower axis gives each
//! further nine the same room, so that the tail is as wide as the middle. All panels of a regime have the same axes.
//!
//! Invariant: the picture is drawn from the same samples as the table's percentiles.

mod labels;
mod panel;

use plotters::coord::Shift;
use plotters::prelude::*;

use crate::report::svg::panel::{Axes, Curve};
use crate::transports::floor::TwoLines;
use crate::{Report, Result, Row, Section};

const WIDTH: u32 = 1280;
const HEADING: u32 = 62;
const SECTION_HEADING: u32 = 34;
const PANEL: u32 = 330;
const COLUMNS: usize = 2;
/// Curves of one panel; more cannot be distinguished.
const CURVES_MAX: usize = 6;
const FONT: &str = "sans-serif";
const INK: RGBColor = RGBColor(40, 40, 40);
const FAINT_INK: RGBColor = RGBColor(110, 110, 110);
/// The two-line floor, the reference of each panel.
const GREY: RGBColor = RGBColor(140, 140, 140);
/// Colours for the other rows: six that most eyes distinguish (Okabe and Ito), dark enough for text.
const COLOURS: [RGBColor; CURVES_MAX] = [
    RGBColor(213, 94, 0),
    RGBColor(0, 114, 178),
    RGBColor(0, 158, 115),
    RGBColor(190, 80, 150),
    RGBColor(205, 140, 0),
    RGBColor(90, 60, 180),
];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

impl Report {
    /// The picture as SVG text.
    ///
    /// # Errors
    /// When the library cannot draw it.
    pub fn to_svg(&self) -> Result<String> {
        let height = |section: &Section| {
            let rows = groups(section).len().div_ceil(COLUMNS);
            Ok::<_, std::num::TryFromIntError>(SECTION_HEADING + PANEL * u32::try_from(rows)?)
        };
        let heights =
            self.sections.iter().map(height).collect::<std::result::Result<Vec<_>, _>>()?;
        let mut svg = String::new();
        let size = (WIDTH, HEADING + heights.iter().sum::<u32>());
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        draw(self, &heights, &root).map_err(|error| format!("drawing the picture: {error}"))?;
        drop(root);
        Ok(svg)
    }
}

fn draw(report: &Report, heights: &[u32], root: &Area<'_>) -> Result<()> {
    root.fill(&WHITE)?;
    let (heading, mut rest) = root.split_vertically(HEADING);
    let title = (FONT, 20).into_font().color(&INK);
    heading.draw_text(
        "farcall bench: latency of round trips between two processes",
        &title,
        (16, 10),
    )?;
    let reading = "lower is faster; a curve that rises to the right has a long tail; the time beside a name is its p50";
    let machine = format!("{}. {reading}", report.machine);
    heading.draw_text(&machine, &(FONT, 12).into_font().color(&FAINT_INK), (16, 38))?;
    let mut colours = Vec::new();
    for (section, &height) in report.sections.iter().zip(heights) {
        let (area, below) = rest.split_vertically(height);
        draw_section(section, &mut colours, &area, root)?;
        rest = below;
    }
    root.present()?;
    Ok(())
}

/// One heading, then the panels in columns.
fn draw_section<'a>(
    section: &'a Section,
    colours: &mut Vec<(&'a str, RGBColor)>,
    area: &Area<'_>,
    root: &Area<'_>,
) -> Result<()> {
    let (heading, panels) = area.split_vertically(SECTION_HEADING);
    let regime = section.regime;
    let text = format!("{}: {}, {} rounds", regime.name(), regime.description(), section.rounds);
    heading.draw_text(&text, &(FONT, 15).into_font().color(&INK), (16, 12))?;
    let groups = groups(section);
    let axes = Axes::of(section);
    let panels = panels.split_evenly((groups.len().div_ceil(COLUMNS).max(1), COLUMNS));
    for (rows, panel) in groups.iter().zip(panels) {
        let mut curves: Vec<Curve<'_>> = Vec::new();
        for &row in rows {
            let taken: Vec<_> = curves.iter().map(|curve| curve.colour).collect();
            curves.push(Curve { row, colour: colour(&row.name, colours, &taken) });
        }
        panel::draw(&axes, &curves, &panel, root)?;
    }
    Ok(())
}

/// The rows of each panel. The two-line floor is in all of them, if it ran.
fn groups(section: &Section) -> Vec<Vec<&Row>> {
    let (floor, others): (Vec<&Row>, Vec<&Row>) =
        section.rows.iter().partition(|row| row.name == TwoLines::NAME);
    if others.is_empty() {
        return vec![floor];
    }
    let panels = others.len().div_ceil(CURVES_MAX - floor.len());
    // As many rows in each as the others have, so that no panel has one row alone.
    let each = others.len().div_ceil(panels);
    others.chunks(each).map(|rows| [&floor[..], rows].concat()).collect()
}

/// The colour of a row: the same as in earlier panels, unless a row of this panel uses that colour already.
fn colour<'a>(name: &'a str, known: &mut Vec<(&'a str, RGBColor)>, taken: &[RGBColor]) -> RGBColor {
    if name == TwoLines::NAME {
        return GREY;
    }
    let earlier = known.iter().find(|(other, _)| *other == name).map(|(_, colour)| *colour);
    let is_free = |colour: &RGBColor| !taken.contains(colour);
    let first_free = || COLOURS.into_iter().find(is_free);
    let colour = earlier.filter(is_free).or_else(first_free).unwrap_or(INK);
    if earlier.is_none() {
        known.push((name, colour));
    }
    colour
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CpuPair;
    use crate::report::tests::report;

    #[test]
    fn the_picture_names_every_row_and_both_axes() {
        let svg = report(CpuPair { caller: 0, server: 1 }).to_svg().unwrap();
        for shown in [
            "Some CPU, 2 virtual CPUs",
            "a &quot;long&quot; name: 18",
            "99.9 %",
            "50 µs",
            "5 ms",
            "27 µs",
        ] {
            assert!(svg.contains(shown), "{shown} is missing in\n{svg}");
        }
        assert_eq!(svg.matches("one call after 5 ms of rest").count(), 1);
        // A curve for each of the two rows, in one colour: they have one name.
        let lines = "stroke=\"#D55E00\" stroke-width=\"2\"";
        assert_eq!(svg.matches(lines).count(), 2, "{lines} in\n{svg}");
        assert!(svg.trim_end().ends_with("</svg>"));
    }

    #[test]
    fn panels_have_at_most_six_curves_and_the_floor() {
        let mut section = report(CpuPair { caller: 0, server: 1 }).sections.swap_remove(0);
        let row = section.rows.swap_remove(0);
        let names =
            [TwoLines::NAME.to_owned()].into_iter().chain((1..=19).map(|n| format!("row {n}")));
        section.rows.extend(names.map(|name| Row { name, ..row.clone() }));
        let groups = groups(&section);
        assert_eq!(groups.iter().map(Vec::len).collect::<Vec<_>>(), [6, 6, 6, 5]);
        let mut known = Vec::new();
        for group in groups {
            assert_eq!(group[0].name, TwoLines::NAME);
            let mut taken = Vec::new();
            for row in group {
                let colour = colour(&row.name, &mut known, &taken);
                assert!(!taken.contains(&colour), "{}", row.name);
                taken.push(colour);
            }
        }
        assert_eq!(colour("row 1", &mut known, &[]), COLOURS[0]);
    }
}
