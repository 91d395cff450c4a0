//! Isolated functions of all shapes, each called with values at the ends of its types, and compared with the same function called here.
#![allow(
    clippy::too_many_arguments,
    clippy::ptr_arg,
    clippy::box_collection,
    clippy::unused_unit,
    clippy::boxed_local,
    reason = "these are shapes that functions of others have"
)]

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use farcall::isolate;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Point {
    x: f64,
    y: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Shape {
    Nothing,
    Dot(Point),
    Circle { center: Point, radius: f64 },
    Group(Vec<Shape>),
}

/// Declares each function twice: isolated, and as `here::` the same name.
macro_rules! functions {
    ($(fn $name:ident $parameters:tt $(-> $result:ty)? $body:block)*) => {
        $(#[isolate] fn $name $parameters $(-> $result)? $body)*

        mod here {
            use super::*;
            $(pub(super) fn $name $parameters $(-> $result)? $body)*
        }

        const COUNT: usize = [$(stringify!($name)),*].len();
    };
}

functions! {
    fn nothing() {}
    fn unit(_: ()) -> () {}
    fn one_u8(a: u8) -> u8 { !a }
    fn one_u16(a: u16) -> u16 { a.swap_bytes() }
    fn one_u32(a: u32) -> u32 { a.rotate_left(3) }
    fn one_u64(a: u64) -> u64 { a.wrapping_mul(3) }
    fn one_u128(a: u128) -> u128 { a.wrapping_mul(3) }
    fn one_usize(a: usize) -> usize { a.wrapping_add(1) }
    fn one_i8(a: i8) -> i8 { a.wrapping_neg() }
    fn one_i16(a: i16) -> i16 { a.wrapping_neg() }
    fn one_i32(a: i32) -> i32 { a.wrapping_neg() }
    fn one_i64(a: i64) -> i64 { a.wrapping_neg() }
    fn one_i128(a: i128) -> i128 { a.wrapping_neg() }
    fn one_isize(a: isize) -> isize { a.wrapping_neg() }
    fn one_f32(a: f32) -> f32 { a * 0.5 }
    fn one_f64(a: f64) -> f64 { a * 0.5 }
    fn truth(a: bool, b: bool) -> bool { a != b }
    fn letter(a: char) -> char { a.to_ascii_uppercase() }
    fn two(a: i64, b: f64) -> f64 { a as f64 * b }
    fn eight(a: u8, b: u16, c: u32, d: u64, e: i8, f: i16, g: i32, h: i64) -> i128 {
        i128::from(a) + i128::from(b) + i128::from(c) + i128::from(d) + i128::from(e) + i128::from(f) + i128::from(g) + i128::from(h)
    }
    fn seventeen(
        a: u8, b: u8, c: u8, d: u8, e: u8, f: u8, g: u8, h: u8, i: u8, j: u8, k: u8, l: u8, m: u8, n: u8, o: u8, p: u8, q: u64
    ) -> u64 {
        [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p].iter().map(|number| u64::from(*number)).sum::<u64>() + q
    }
    fn array(a: [u8; 32]) -> [u8; 32] { let mut a = a; a.reverse(); a }
    fn matrix(a: [f64; 9]) -> f64 { a.iter().sum() }
    fn borrowed_number(a: &u64) -> u64 { *a + 1 }
    fn bytes(a: &[u8]) -> u64 { a.iter().map(|byte| u64::from(*byte)).sum() }
    fn bytes_and(a: &[u8], b: u8) -> usize { a.iter().filter(|byte| **byte == b).count() }
    fn number_and_bytes(a: u8, b: &[u8]) -> usize { b.len() + usize::from(a) }
    fn two_slices(a: &[u8], b: &[u64]) -> u64 { a.len() as u64 + b.iter().sum::<u64>() }
    fn wide_slice(a: &[u128]) -> u128 { a.iter().sum() }
    fn floats(a: &[f32]) -> f32 { a.iter().sum() }
    fn text(a: &str) -> usize { a.chars().count() }
    fn texts(a: &str, b: &str) -> String { format!("{a}{b}") }
    fn owned_text(a: String) -> String { a.chars().rev().collect() }
    fn borrowed_text(a: &String) -> usize { a.len() }
    fn owned_bytes(a: Vec<u8>) -> Vec<u8> { a.into_iter().rev().collect() }
    fn owned_numbers(a: Vec<i64>) -> Vec<i64> { a.into_iter().map(|number| -number).collect() }
    fn borrowed_vector(a: &Vec<u16>) -> usize { a.len() }
    fn slice_of_text(a: &[&str]) -> String { a.join("+") }
    fn slice_of_points(a: &[Point]) -> f64 { a.iter().map(|point| point.x * point.y).sum() }
    fn point(a: Point) -> Point { Point { x: a.y, y: a.x } }
    fn point_by_reference(a: &Point, scale: f64) -> Point { Point { x: a.x * scale, y: a.y * scale } }
    fn shape(a: Shape) -> Shape { Shape::Group(vec![a, Shape::Nothing]) }
    fn tuple(a: (u8, String), (b, c): (f64, bool)) -> (String, f64, bool) { (format!("{}{}", a.0, a.1), b, c) }
    fn option(a: Option<u32>) -> Option<u32> { a.map(|number| number + 1) }
    fn option_of_text(a: Option<&str>) -> Option<usize> { a.map(str::len) }
    fn map(a: BTreeMap<String, Vec<u32>>) -> BTreeMap<String, u32> { a.into_iter().map(|(key, all)| (key, all.iter().sum())).collect() }
    fn set(a: &HashSet<u64>) -> u64 { a.iter().sum() }
    fn boxed(a: Box<Shape>) -> Box<Shape> { a }
    fn copied_if_needed(a: Cow<'_, str>) -> usize { a.len() }
    fn time(a: Duration) -> Duration { a * 2 }
    fn nested(a: Vec<Vec<Option<Point>>>) -> usize { a.iter().flatten().flatten().count() }
    fn mutable(mut a: Vec<u8>) -> Vec<u8> { a.push(1); a }
    fn lifetime(a: &str, b: std::borrow::Cow<'static, str>) -> bool { a == b }
}

/// Calls a function there and here, and compares what they return.
macro_rules! compare {
    ($($name:ident($($argument:expr),*);)*) => {{
        let mut names = std::collections::BTreeSet::new();
        $(
            names.insert(stringify!($name));
            assert_eq!(format!("{:?}", $name($($argument),*)), format!("{:?}", here::$name($($argument),*)), stringify!($name));
        )*
        names
    }};
}

#[test]
fn functions_of_all_shapes_return_what_they_return_here() {
    let origin = || Point { x: 1.5, y: -2.0 };
    let circle = || Shape::Circle { center: origin(), radius: 3.0 };
    let large: Vec<u8> = (0..3_000_000_u32).map(|number| number.to_le_bytes()[0]).collect();
    let names = compare! {
        nothing();
        unit(());
        one_u8(0); one_u8(255);
        one_u16(0x1234); one_u32(u32::MAX); one_u64(u64::MAX); one_u128(u128::MAX - 5); one_usize(usize::MAX);
        one_i8(i8::MIN); one_i16(i16::MIN); one_i32(i32::MIN); one_i64(i64::MIN); one_i128(i128::MIN); one_isize(isize::MIN);
        one_f32(f32::MIN_POSITIVE); one_f64(f64::NAN); one_f64(-0.0);
        truth(true, false); truth(true, true);
        letter('a'); letter('\u{10ffff}');
        two(-3, 0.5);
        eight(1, 2, 3, 4, -5, -6, -7, -8);
        seventeen(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 1 << 40);
        array(std::array::from_fn(|at| at.to_le_bytes()[0]));
        matrix([0.5; 9]);
        borrowed_number(&41);
        bytes(b""); bytes(b"abc"); bytes(&large);
        bytes_and(b"banana", b'a'); bytes_and(&large, 7); bytes_and(b"", 0);
        number_and_bytes(3, b""); number_and_bytes(3, &large);
        two_slices(b"abc", &[1, 2, 3]); two_slices(b"", &[]); two_slices(&large, &[5]);
        wide_slice(&[u128::MAX / 2, 1]); wide_slice(&[]);
        floats(&[0.5, 0.25]);
        text(""); text("grün"); text(&"x".repeat(100_000));
        texts("", ""); texts("a", "bc");
        owned_text("abc".to_owned()); owned_text(String::new());
        borrowed_text(&"abc".to_owned());
        owned_bytes(vec![1, 2, 3]); owned_bytes(large.clone()); owned_bytes(Vec::new());
        owned_numbers(vec![i64::MAX, -1]);
        borrowed_vector(&vec![1, 2]);
        slice_of_text(&["a", "", "c"]); slice_of_text(&[]);
        slice_of_points(&[origin(), origin()]);
        point(origin());
        point_by_reference(&origin(), 2.0);
        shape(circle()); shape(Shape::Group(vec![Shape::Dot(origin()), Shape::Nothing]));
        tuple((1, "x".to_owned()), (0.5, true));
        option(None); option(Some(1));
        option_of_text(None); option_of_text(Some("abc"));
        map(BTreeMap::from([("a".to_owned(), vec![1, 2]), ("b".to_owned(), vec![])]));
        set(&HashSet::from([1, 2, 3]));
        boxed(Box::new(circle()));
        copied_if_needed("abc".into()); copied_if_needed(String::from("abcd").into());
        time(Duration::new(1, 999_999_999));
        nested(vec![vec![Some(origin()), None], vec![]]);
        mutable(vec![0]);
        lifetime("a", "a".into());
    };
    assert_eq!(names.len(), COUNT, "each is called");
    const { assert!(COUNT >= 50, "functions of all shapes") };
}
