//! A library whose answers are random. Each call is a result or an error, and the host stays whole.

mod library;
#[rustfmt::skip]
#[path = "bindings/shapes.rs"]
mod shapes;

use std::ffi::{CStr, CString};

use farcall::bind::{Handle, LibrarySource, Options};
use farcall::{ExecutorAddr, Result};
use library::Built;
use shapes::{Shapes, flags, line, point};

/// Rounds over all functions, unless the environment says another number.
const ROUNDS: usize = 4_000;
/// The functions of a round.
const FUNCTIONS: usize = 26;

#[test]
fn random_answers_are_results_or_errors() {
    let built = Built::new("hostile.c");
    let path = built.path("libshapes.so");
    let sources = [LibrarySource::Shared(path.to_str().expect("UTF-8"))];
    let shapes = Shapes::start_with(&sources, Options::new("hostile")).expect("an executor");
    let rounds =
        std::env::var("HOSTILE_ROUNDS").map_or(ROUNDS, |rounds| rounds.parse().expect("a number"));
    let (mut results, mut errors, mut deaths) = (0, 0, 0);
    for _ in 0..rounds {
        for outcome in round(&shapes) {
            match outcome {
                Ok(()) => results += 1,
                Err(error) => {
                    errors += 1;
                    deaths += usize::from(error.death().is_some());
                }
            }
        }
    }
    println!(
        "hostile: {} cases: {results} results, {errors} errors, {deaths} deaths",
        results + errors
    );
    assert!(
        results > errors && errors > deaths && deaths > 0,
        "{results} results, {errors} errors, {deaths} deaths"
    );
    // The host is as before, and so are its other libraries.
    let other = Built::new("shapes.c");
    let path = other.path("libshapes.so");
    let honest = Shapes::start_with(
        &[LibrarySource::Shared(path.to_str().expect("UTF-8"))],
        Options::new("honest"),
    );
    assert_eq!(honest.and_then(|honest| honest.add(40, 2)).expect("a number"), 42);
}

/// Calls each function, and uses what it says as a careful host would.
fn round(shapes: &Shapes) -> [Result<()>; FUNCTIONS] {
    let mut numbers = [1, 2, 3];
    let (mut out, mut text, mut bits) = ([0_u8; 32], None, flags::default());
    let (mut corner, mut whole, mut rest) = (point::default(), 0, 0.0);
    let (mut opened, mut shape) = (Handle::null(), Handle::null());
    let way = line::default();
    [
        shapes.add(1, 2).map(drop),
        shapes.is_red(0).map(drop),
        shapes.next_color(1).map(drop),
        shapes.halves(0.5, 1, 2, false).map(drop),
        shapes.bits(7).map(drop),
        shapes.touch(),
        shapes.mean(&[0.5; 9]).map(drop),
        shapes.negate(&mut numbers),
        shapes
            .upper(c"text", &mut out)
            .and_then(|(_, length)| length.at_most(out.len()))
            .map(|length| drop(out[..length].to_vec())),
        shapes.checksum(&[7; 100]).map(drop),
        shapes.version().map(drop),
        shapes.join(c"a", c"b").map(drop),
        shapes.explain(1, &mut text).map(drop),
        shapes.turn(&mut corner),
        shapes.distance(&way).map(drop),
        shapes.middle(&way, &mut corner),
        shapes.change(&mut bits).map(drop),
        shapes.sum_x(&[corner]).map(drop),
        shapes.split(1.5, &mut whole, &mut rest).map(drop),
        shapes.shape_open(c"name", 1.0, &mut opened).map(drop),
        shapes.shape_copy(&opened).map(|copy| shape = copy),
        shapes.shape_name(&shape).map(drop),
        shapes.each(2, Some(&mut |_: i32, _: Option<&CStr>, _: f64| 0)).map(drop),
        shapes
            .rows(
                2,
                Some(&mut |_: i32, values: &[Option<CString>], _: &[Option<CString>]| {
                    i32::from(values.is_empty())
                }),
            )
            .map(drop),
        shapes.introduce(&shape, Some(&mut |_: &Handle<shapes::shape>| ())).map(drop),
        shapes
            .keep(ExecutorAddr::NULL)
            .and_then(|address| shapes.sandbox().read(address, 8))
            .map(drop),
    ]
}
