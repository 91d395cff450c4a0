//! Labels that do not cover each other.

use std::ops::Range;

/// Heights of labels, in the order of `wanted` and as near to it as possible. They are at least `distance` apart, and inside
/// `range` as far as they fit.
pub(super) fn spread(wanted: &[i32], distance: i32, range: &Range<i32>) -> Vec<i32> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by_key(|&index| wanted[index]);
    let mut heights = wanted.to_vec();
    let mut least = range.start + distance / 2;
    for &index in &order {
        heights[index] = heights[index].max(least);
        least = heights[index] + distance;
    }
    // Labels that were pushed beyond the end move back.
    let mut most = range.end - distance / 2;
    for &index in order.iter().rev() {
        heights[index] = heights[index].min(most);
        most = heights[index] - distance;
    }
    heights
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_keep_their_order_and_distance() {
        assert_eq!(spread(&[50, 20, 90], 10, &(0..100)), [50, 20, 90]);
        assert_eq!(spread(&[50, 50, 48], 10, &(0..100)), [58, 68, 48]);
        assert_eq!(spread(&[99, 98, 97], 10, &(0..100)), [95, 85, 75]);
        assert_eq!(spread(&[1, 2], 10, &(0..100)), [5, 15]);
        assert!(spread(&[], 10, &(0..100)).is_empty());
    }
}
