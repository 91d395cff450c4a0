//! The latencies of a report as a picture: one panel for each regime, one curve for each row.
//!
//! A point says which share of a row's calls took at most so long. Both axes are logarithmic, the upright one towards
//! 100 %, so that the tail has as much room as the middle.
//!
//! Invariant: the picture is drawn from the same samples as the table's percentiles.

use std::ops::Range;
use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;

use crate::Result;
use crate::table::{nanoseconds, ratio};
use crate::{Report, Row, Section};

const WIDTH: u32 = 1200;
const HEADING: u32 = 54;
const PANEL_MIN: u32 = 400;
/// Above the first line of a legend, and below the last.
const LEGEND_MARGINS: u32 = 72;
const LEGEND_LINE: u32 = 20;
const LEGEND: u32 = 300;
const FONT: &str = "sans-serif";
const INK: RGBColor = RGBColor(40, 40, 40);
const GRID: RGBColor = RGBColor(226, 226, 226);
const FAINT_GRID: RGBColor = RGBColor(243, 243, 243);
/// The shares that have a line; the last is the upper end.
const SHARES: [(f64, &str); 6] = [
    (0.0, "0"),
    (0.5, "50 %"),
    (0.9, "90 %"),
    (0.99, "99 %"),
    (0.999, "99.9 %"),
    (0.9999, "99.99 %"),
];
/// The floors, in grey.
const GREYS: [RGBColor; 2] = [RGBColor(120, 120, 120), RGBColor(185, 185, 185)];
/// All other rows in the order in which they appear; colours that are told apart in print and by most eyes.
const COLOURS: [RGBColor; 14] = [
    RGBColor(213, 60, 0),
    RGBColor(0, 114, 178),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(120, 94, 240),
    RGBColor(160, 82, 45),
    RGBColor(150, 170, 0),
    RGBColor(0, 60, 90),
    RGBColor(240, 130, 130),
    RGBColor(90, 0, 90),
    RGBColor(110, 215, 180),
    RGBColor(90, 90, 0),
];

impl Report {
    /// Draws the picture to an SVG file.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write_svg(&self, path: &Path) -> Result<()> {
        let panels = u32::try_from(self.sections.len())?;
        let rows = self.sections.iter().map(|section| section.rows.len()).max().unwrap_or(0);
        let panel = PANEL_MIN.max(LEGEND_MARGINS + LEGEND_LINE * u32::try_from(rows)?);
        let area = SVGBackend::new(path, (WIDTH, HEADING + panels * panel)).into_drawing_area();
        draw(self, &area).map_err(|error| format!("drawing {}: {error}", path.display()).into())
    }
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn draw(report: &Report, area: &Area<'_>) -> Result<()> {
    area.fill(&WHITE)?;
    let (heading, panels) = area.split_vertically(HEADING);
    let title = (FONT, 20).into_font().color(&INK);
    heading.draw_text(
        "farcall bench: how long calls took, and how many took at most that long",
        &title,
        (16, 10),
    )?;
    let reading = "left is faster, bent to the right at the top is a long tail";
    heading.draw_text(
        &format!("{}; {reading}", report.machine),
        &(FONT, 13).into_font().color(&INK),
        (16, 36),
    )?;
    for (section, panel) in
        report.sections.iter().zip(panels.split_evenly((report.sections.len(), 1)))
    {
        let (plot, legend) = panel.split_horizontally(WIDTH - LEGEND);
        let colours: Vec<_> = section.rows.iter().map(|row| colour(report, &row.name)).collect();
        draw_curves(section, &colours, &plot)?;
        draw_legend(section, &colours, &legend)?;
    }
    area.present()?;
    Ok(())
}

fn draw_curves(section: &Section, colours: &[RGBColor], plot: &Area<'_>) -> Result<()> {
    let caption = format!(
        "{}: {} ({} rounds)",
        section.regime.name(),
        section.regime.description(),
        section.rounds
    );
    let shares = SHARES.map(|(share, _)| height(share));
    let times_ns = times_ns(section);
    let mut chart = ChartBuilder::on(plot)
        .caption(caption, (FONT, 15).into_font().color(&INK))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(64)
        .build_cartesian_2d(
            times_ns.clone().log_scale().with_key_points(decades(&times_ns)),
            (shares[0]..shares[SHARES.len() - 1]).log_scale().with_key_points(shares.to_vec()),
        )?;
    chart
        .configure_mesh()
        .bold_line_style(GRID)
        .light_line_style(FAINT_GRID)
        .axis_style(GRID)
        .label_style((FONT, 13).into_font().color(&INK))
        .x_desc("how long a call took")
        .x_label_formatter(&|ns| time(*ns))
        .y_label_formatter(&|y| share(*y).to_owned())
        .draw()?;
    for (row, colour) in section.rows.iter().zip(colours) {
        chart.draw_series(LineSeries::new(curve(row), colour.stroke_width(2)))?;
    }
    Ok(())
}

fn draw_legend(section: &Section, colours: &[RGBColor], legend: &Area<'_>) -> Result<()> {
    let text = (FONT, 14).into_font().color(&INK);
    let small = (FONT, 12).into_font().color(&RGBColor(110, 110, 110));
    legend.draw_text("p50 ns", &small, (190, 30))?;
    legend.draw_text("x floor", &small, (245, 30))?;
    for ((row, colour), y) in
        section.rows.iter().zip(colours).zip((52..).step_by(LEGEND_LINE as usize))
    {
        legend.draw(&PathElement::new([(4, y + 7), (24, y + 7)], colour.stroke_width(4)))?;
        legend.draw_text(&row.name, &text, (32, y))?;
        let times = row.two_line_ratio.map(|spread| ratio(spread.median));
        let median = nanoseconds(row.quantile_ns(0.5) as f64);
        legend.draw_text(&median, &text, (190, y))?;
        legend.draw_text(&times.unwrap_or_default(), &text, (245, y))?;
    }
    Ok(())
}

/// The colour of a row, the same in all panels.
fn colour(report: &Report, name: &str) -> RGBColor {
    let mut names = Vec::new();
    for row in report.sections.iter().flat_map(|section| &section.rows) {
        let (is_floor, name) = (row.name.ends_with("floor"), &*row.name);
        if !names.contains(&(is_floor, name)) {
            names.push((is_floor, name));
        }
    }
    let (greys, others): (Vec<_>, Vec<_>) = names.into_iter().partition(|(is_floor, _)| *is_floor);
    let place = |names: Vec<(bool, &str)>| names.iter().position(|(_, other)| *other == name);
    match (place(greys), place(others)) {
        (Some(index), _) => GREYS[index % GREYS.len()],
        (None, index) => COLOURS[index.unwrap_or(0) % COLOURS.len()],
    }
}

/// The points of a row: how long, and which share took at most that long.
fn curve(row: &Row) -> Vec<(f64, f64)> {
    let steps = row.samples.iter_quantiles(20);
    let points = steps.map(|step| (step.value_iterated_to() as f64, step.quantile_iterated_to()));
    let highest = SHARES[SHARES.len() - 1].0;
    let mut points: Vec<_> = points
        .take_while(|(_, share)| *share <= highest)
        .map(|(ns, share)| (ns, height(share)))
        .collect();
    // The first step is not at 0: the curve begins at the fastest call.
    points.insert(0, (row.samples.min() as f64, height(0.0)));
    points
}

/// Where a share stands on a logarithmic axis: one of how many calls took longer.
fn height(share: f64) -> f64 {
    1.0 / (1.0 - share)
}

/// The name of the share nearest to where it stands.
fn share(height_of: f64) -> &'static str {
    let distance = |share: f64| (height(share) / height_of).ln().abs();
    let nearest = SHARES.iter().min_by(|a, b| distance(a.0).total_cmp(&distance(b.0)));
    nearest.map_or("", |(_, name)| name)
}

/// From the fastest call of all rows to the slowest that is shown, with some room.
fn times_ns(section: &Section) -> Range<f64> {
    let highest = SHARES[SHARES.len() - 1].0;
    let fastest = section.rows.iter().map(|row| row.samples.min()).min().unwrap_or(1);
    let slowest = section.rows.iter().map(|row| row.quantile_ns(highest)).max().unwrap_or(1);
    (fastest.max(1) as f64 * 0.8)..(slowest.max(10) as f64 * 1.25)
}

/// The round numbers of a range: 1, 2 and 5 with zeros.
fn decades(range: &Range<f64>) -> Vec<f64> {
    let steps = (0..=11).flat_map(|zeros| [1.0, 2.0, 5.0].map(|first| first * 10_f64.powi(zeros)));
    steps.filter(|step| range.contains(step)).collect()
}

/// A round time in its unit.
fn time(ns: f64) -> String {
    match ns {
        ..1e3 => format!("{ns:.0} ns"),
        ..1e6 => format!("{:.0} µs", ns / 1e3),
        ..1e9 => format!("{:.0} ms", ns / 1e6),
        _ => format!("{:.0} s", ns / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CpuPair;
    use crate::report::tests::report;

    #[test]
    fn the_picture_names_every_row_and_both_axes() {
        let path = std::env::temp_dir().join(format!("cdf-{}.svg", std::process::id()));
        report(CpuPair { caller: 0, server: 1 }).write_svg(&path).unwrap();
        let svg = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        for shown in
            ["Some CPU, 2 virtual CPUs", "a &quot;long&quot; name: 18", "99.9 %", "50 µs", "5 ms"]
        {
            assert!(svg.contains(shown), "{shown} is missing in\n{svg}");
        }
        assert_eq!(svg.matches("one call after 5 ms of rest").count(), 1);
        // A curve and a line in the legend for each of the two rows, in one colour: they have one name.
        for width in [2, 4] {
            let lines = format!("stroke=\"#D53C00\" stroke-width=\"{width}\"");
            assert_eq!(svg.matches(&lines).count(), 2, "{lines} in\n{svg}");
        }
        assert!(svg.trim_end().ends_with("</svg>"));
    }

    #[test]
    fn each_nine_has_the_same_room() {
        assert!((height(0.9) - 10.0).abs() < 1e-6 && (height(0.999) - 1_000.0).abs() < 1e-6);
        for (at, name) in SHARES {
            assert_eq!(share(height(at)), name);
        }
        assert_eq!(decades(&(90.0..1_500.0)), [100.0, 200.0, 500.0, 1_000.0]);
        assert_eq!([90.0, 2e3, 5e6, 1e9].map(time), ["90 ns", "2 µs", "5 ms", "1 s"]);
    }
}
