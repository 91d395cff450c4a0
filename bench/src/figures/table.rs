//! Plain text tables, and numbers short enough for them.
//!
//! Invariant: no line ends in a blank; columns are as wide as their widest cell.

use std::fmt::Write;

/// Lines of `rows`, the first column to the left, the others to the right, two blanks apart.
pub(crate) fn aligned<const COLUMNS: usize>(rows: &[[String; COLUMNS]]) -> String {
    let mut widths = [0; COLUMNS];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, (&width, cell)) in widths.iter().zip(row).enumerate() {
            // Writing to a String cannot fail.
            let _ = if column == 0 {
                write!(line, "{cell:width$}")
            } else {
                write!(line, "  {cell:>width$}")
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A ratio in at most five characters: two decimals while it is below 10, then at least three
/// digits.
pub(crate) fn ratio(value: f64) -> String {
    if value >= 10_000.0 {
        return count(whole(value));
    }
    let decimals = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.decimals$}")
}

/// A time in at most five characters: whole nanoseconds, from 100,000 on in thousands and so on.
pub(crate) fn nanoseconds(value: f64) -> String {
    match whole(value) {
        short @ 0..100_000 => short.to_string(),
        long => count(long),
    }
}

/// A count in at most five characters: 812, 12.3k, 412k, 1.24M.
pub(crate) fn count(value: u64) -> String {
    let scaled = |unit: u64, name: &str| {
        let (whole, hundredths) = (value / unit, value % unit * 100 / unit);
        match whole {
            0..10 => format!("{whole}.{hundredths:02}{name}"),
            10..100 => format!("{whole}.{}{name}", hundredths / 10),
            _ => format!("{whole}{name}"),
        }
    };
    match value {
        0..1_000 => value.to_string(),
        1_000..1_000_000 => scaled(1_000, "k"),
        1_000_000..1_000_000_000 => scaled(1_000_000, "M"),
        _ => scaled(1_000_000_000, "G"),
    }
}

/// The nearest whole number.
#[expect(clippy::cast_possible_truncation, reason = "above 2^64 is 2^64 - 1, below 0 is 0")]
#[expect(clippy::cast_sign_loss, reason = "below 0 is 0")]
fn whole(value: f64) -> u64 {
    value.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_lines_do_not_end_in_blanks() {
        let rows = [["row", "ns", ""], ["é", "12345", "x"]].map(|row| row.map(str::to_owned));
        assert_eq!(aligned(&rows), "row     ns\né    12345  x\n");
    }

    #[test]
    fn ratios_keep_three_digits() {
        let shown = [0.493, 1.0, 9.994, 27.04, 271.5, 12_345.6].map(ratio);
        assert_eq!(shown, ["0.49", "1.00", "9.99", "27.0", "272", "12.3k"]);
    }

    #[test]
    fn times_are_whole_nanoseconds_while_they_are_short() {
        let shown = [0.4, 62.5, 99_999.0, 100_000.0, 12_099_583.0].map(nanoseconds);
        assert_eq!(shown, ["0", "63", "99999", "100k", "12.0M"]);
    }

    #[test]
    fn counts_keep_three_digits() {
        let shown = [0, 999, 1_049, 12_345, 412_999, 1_249_999, 3_000_000_000].map(count);
        assert_eq!(shown, ["0", "999", "1.04k", "12.3k", "412k", "1.24M", "3.00G"]);
    }
}
