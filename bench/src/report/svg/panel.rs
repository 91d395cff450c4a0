//! One panel: axes, curves, and the names of the curves at their ends.

use std::ops::Range;

use plotters::prelude::*;

use crate::report::svg::labels::spread;
use crate::report::svg::{Area, FAINT_INK, FONT, INK};
use crate::{Result, Row, Section};

const GRID: RGBColor = RGBColor(226, 226, 226);
/// Room for names at the right.
const LABELS: u32 = 196;
/// The distance of two names.
const LABEL_LINE: i32 = 15;
/// Shares that have a line; the last is the right end.
const SHARES: [(f64, &str); 6] = [
    (0.0, "0"),
    (0.5, "50 %"),
    (0.9, "90 %"),
    (0.99, "99 %"),
    (0.999, "99.9 %"),
    (0.9999, "99.99 %"),
];

/// A row and its colour.
pub(super) struct Curve<'a> {
    pub(super) row: &'a Row,
    pub(super) colour: RGBColor,
}

/// The axes that all panels of a regime have.
pub(super) struct Axes {
    times_ns: Range<f64>,
}

impl Axes {
    /// From the fastest call of all rows to the slowest that is shown, with a margin.
    pub(super) fn of(section: &Section) -> Axes {
        let highest = SHARES[SHARES.len() - 1].0;
        let fastest = section.rows.iter().map(|row| row.samples.min()).min().unwrap_or(1);
        let slowest = section.rows.iter().map(|row| row.quantile_ns(highest)).max().unwrap_or(1);
        Axes { times_ns: (fastest.max(1) as f64 * 0.8)..(slowest.max(10) as f64 * 1.25) }
    }
}

/// Draws the panel; the names go to `root`, because their positions count from the corner of the picture.
pub(super) fn draw(
    axes: &Axes,
    curves: &[Curve<'_>],
    panel: &Area<'_>,
    root: &Area<'_>,
) -> Result<()> {
    let shares = SHARES.map(|(share, _)| position(share));
    let times_ns = axes.times_ns.clone();
    let mut chart = ChartBuilder::on(panel)
        .margin(10)
        .margin_right(LABELS)
        .x_label_area_size(26)
        .y_label_area_size(58)
        .build_cartesian_2d(
            (shares[0]..shares[SHARES.len() - 1]).log_scale().with_key_points(shares.to_vec()),
            times_ns.clone().log_scale().with_key_points(round_times(&times_ns)),
        )?;
    chart
        .configure_mesh()
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .axis_style(GRID)
        .label_style((FONT, 12).into_font().color(&INK))
        .x_label_formatter(&|x| share(*x).to_owned())
        .y_label_formatter(&|ns| time(*ns))
        .draw()?;
    let mut ends = Vec::new();
    for Curve { row, colour } in curves {
        let points = points(row);
        let end = points.last().copied().unwrap_or((1.0, times_ns.start));
        ends.push(chart.plotting_area().map_coordinate(&end));
        chart.draw_series(LineSeries::new(points, colour.stroke_width(2)))?;
    }
    let (columns, lines) = chart.plotting_area().get_pixel_range();
    let label_lines = spread(&ends.iter().map(|end| end.1).collect::<Vec<_>>(), LABEL_LINE, &lines);
    for ((Curve { row, colour }, end), line) in curves.iter().zip(ends).zip(label_lines) {
        let pointer = [end, (columns.end + 4, line), (columns.end + 10, line)];
        root.draw(&PathElement::new(pointer, colour.mix(0.6).stroke_width(1)))?;
        let name = (FONT, 13).into_font().color(colour);
        root.draw_text(&row.name, &name, (columns.end + 14, line - 7))?;
        let median = (FONT, 12).into_font().color(&FAINT_INK);
        let text = time(row.quantile_ns(0.5) as f64);
        root.draw_text(&text, &median, (columns.end + 140, line - 6))?;
    }
    Ok(())
}

/// The points of a row: the position of a share, and the time in nanoseconds that this share stayed within.
fn points(row: &Row) -> Vec<(f64, f64)> {
    let highest = SHARES[SHARES.len() - 1].0;
    // Few samples end before the axis: the slowest of 1,000 is at 99.9 %.
    let end = (row.samples.len().max(1) as f64).min(position(highest));
    let steps = row
        .samples
        .iter_quantiles(20)
        .map(|step| (position(step.quantile_iterated_to()), step.value_iterated_to() as f64));
    // The first step is not at 0: the curve begins at the fastest call.
    let start = (position(0.0), row.samples.min() as f64);
    let mut points: Vec<_> =
        [start].into_iter().chain(steps.take_while(|(position, _)| *position < end)).collect();
    points.push((end, row.quantile_ns(highest) as f64));
    points
}

/// The position of a share on a logarithmic axis: one call of this many took longer.
fn position(share: f64) -> f64 {
    1.0 / (1.0 - share)
}

/// The name of the share nearest to a position.
fn share(position_of: f64) -> &'static str {
    let distance = |share: f64| (position(share) / position_of).ln().abs();
    let nearest = SHARES.iter().min_by(|a, b| distance(a.0).total_cmp(&distance(b.0)));
    nearest.map_or("", |(_, name)| name)
}

/// The round times of a range: 1, 2 and 5 with zeros, or 1 with zeros in a range of more than three decades.
fn round_times(range: &Range<f64>) -> Vec<f64> {
    let firsts: &[f64] = if range.end / range.start > 1e3 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let steps =
        (0..=11).flat_map(|zeros| firsts.iter().map(move |first| first * 10_f64.powi(zeros)));
    steps.filter(|step| range.contains(step)).collect()
}

/// A time in its unit, to two digits or as many as it has before the point.
fn time(ns: f64) -> String {
    let (value, unit) = match ns {
        ..1e3 => (ns, "ns"),
        ..1e6 => (ns / 1e3, "µs"),
        ..1e9 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    };
    let is_whole = value >= 10.0 || (value - value.round()).abs() < 0.05 || unit == "ns";
    if is_whole { format!("{value:.0} {unit}") } else { format!("{value:.1} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CpuPair;
    use crate::report::tests::report;

    #[test]
    fn each_nine_has_the_same_room() {
        assert!((position(0.9) - 10.0).abs() < 1e-6 && (position(0.999) - 1_000.0).abs() < 1e-6);
        for (at, name) in SHARES {
            assert_eq!(share(position(at)), name);
        }
        assert_eq!(round_times(&(90.0..1_500.0)), [100.0, 200.0, 500.0, 1_000.0]);
        assert_eq!(round_times(&(90.0..150_000.0)), [100.0, 1_000.0, 10_000.0, 100_000.0]);
        assert_eq!(
            [90.4, 2e3, 2_340.0, 5e6, 1e9].map(time),
            ["90 ns", "2 µs", "2.3 µs", "5 ms", "1 s"]
        );
    }

    #[test]
    fn a_curve_rises_from_the_fastest_call_to_the_slowest_shown() {
        let row = &report(CpuPair { caller: 0, server: 1 }).sections[0].rows[0];
        let points = points(row);
        assert_eq!(points[0], (1.0, row.samples.min() as f64));
        assert!(points.is_sorted_by(|a, b| a.0 <= b.0 && a.1 <= b.1), "{points:?}");
        // 1,000 samples end at 99.9 %.
        let (last, slowest) = points[points.len() - 1];
        assert!((last - 1_000.0).abs() < 1e-6 && slowest > 8e6, "{points:?}");
    }
}
