//! Functions of every shape, through a binding, give what the library gives.

mod library;
#[rustfmt::skip]
#[path = "bindings/shapes.rs"]
mod shapes;

use std::ffi::{CStr, CString};

use farcall::bind::{Handle, LibrarySource, Options};
use farcall::{ErrorKind, ExecutorAddr};
use library::Built;
use shapes::{BLUE, GREEN, RED, Shapes, flags, line, point};

/// The library, not confined, in a process of its own.
fn start(options: Options) -> (Built, Shapes) {
    let built = Built::new("shapes.c");
    let path = built.path("libshapes.so");
    let shapes =
        Shapes::start_with(&[LibrarySource::Shared(path.to_str().expect("UTF-8"))], options);
    (built, shapes.expect("an executor"))
}

fn plain() -> Options {
    Options::new("shapes")
}

#[test]
fn numbers_cross_in_registers() {
    let (_built, shapes) = start(plain());
    assert_eq!(shapes.add(40, 2).expect("a number"), 42);
    assert_eq!(shapes.add(i32::MAX, i32::MIN).expect("a number"), -1);
    assert!(shapes.is_red(RED).expect("an answer"));
    assert_eq!(shapes.next_color(RED).expect("a color"), GREEN);
    assert_eq!(shapes.next_color(17).expect("a color"), BLUE);
    assert_eq!(shapes.halves(1.0, -3, 5, true).expect("a number").to_bits(), 3.5_f32.to_bits());
    assert_eq!(shapes.bits(-1).expect("bits").unchecked(), u64::MAX);
    shapes.touch().expect("nothing");
}

#[test]
fn constants_have_the_values_of_the_header() {
    assert_eq!(shapes::SHAPES_VERSION, c"1.2");
    assert_eq!((shapes::SHAPES_MAX, shapes::SHAPES_NAME_MAX), (64, 32));
    assert_eq!(shapes::SHAPES_ALL, u64::MAX);
    assert_eq!(shapes::SHAPES_LOWEST, i64::MIN);
    assert_eq!(shapes::SHAPES_HALF.to_bits(), 0.5_f64.to_bits());
    assert_eq!((RED, GREEN, BLUE), (0, 5, 6));
}

#[test]
fn slices_are_lent_for_a_call() {
    let (_built, shapes) = start(plain());
    assert_eq!(shapes.mean(&[1.0, 2.0, 6.0]).expect("a mean").to_bits(), 3.0_f64.to_bits());
    let mut values = [1, -2, i32::MAX];
    shapes.negate(&mut values).expect("done");
    assert_eq!(values, [-1, 2, -i32::MAX]);
    // More than a call has at hand without a further allocation.
    let mut many: Vec<i32> = (0..100_000).collect();
    shapes.negate(&mut many).expect("done");
    assert!((0..).zip(&many).all(|(at, value): (i32, _)| *value == -at));
    assert_eq!(shapes.checksum(b"ab").expect("a sum"), 31 * 97 + 98);
    assert_eq!(shapes.checksum(&[]).expect("a sum"), 0);
}

#[test]
fn a_length_that_the_library_says_is_not_trusted() {
    let (_built, shapes) = start(plain());
    let mut out = [0_u8; 8];
    let (status, length) = shapes.upper(c"small", &mut out).expect("an answer");
    assert_eq!((status, length.at_most(out.len()).expect("it fits")), (0, 5));
    assert_eq!(out, *b"SMALL\0\0\0");
    let (status, length) = shapes.upper(c"much larger", &mut out).expect("an answer");
    assert_eq!((status, length.unchecked()), (-1, 11));
    let refused = length.at_most(out.len()).expect_err("it is too much");
    assert_eq!(refused.kind(), ErrorKind::Violation);
}

#[test]
fn text_is_copied_and_given_back() {
    let (_built, shapes) = start(plain());
    assert_eq!(shapes.version().expect("text").as_deref(), Some(c"1.2"));
    assert_eq!(shapes.join(c"one ", c"line").expect("text").as_deref(), Some(c"one line"));
    assert_eq!(shapes.join(c"one", None).expect("no text"), None);
    let mut text = None;
    assert_eq!(shapes.explain(3, &mut text).expect("a number"), 3);
    assert_eq!(text.as_deref(), Some(c"not zero"));
    assert_eq!(shapes.explain(0, &mut text).expect("a number"), 0);
    assert_eq!(text, None);
}

#[test]
fn structures_are_copied_there_and_back() {
    let (_built, shapes) = start(plain());
    let mut corner = point { x: 3, y: 4.0, name: ExecutorAddr::new(9), parts: [1, 2, 3] };
    shapes.turn(&mut corner).expect("done");
    assert_eq!(corner, point { x: -4, y: 3.0, name: ExecutorAddr::new(9), parts: [1, 2, 4] });
    let way = line {
        from: point { x: 1, y: 1.0, ..point::default() },
        to: point { x: 4, y: 5.0, ..point::default() },
    };
    assert_eq!(shapes.distance(&way).expect("a number").to_bits(), 5.0_f64.to_bits());
    assert_eq!(shapes.distance(None).expect("a number").to_bits(), (-1.0_f64).to_bits());
    shapes.middle(&way, &mut corner).expect("done");
    assert_eq!((corner.x, corner.y.to_bits()), (2, 3.0_f64.to_bits()));
    assert_eq!(shapes.sum_x(&[way.from, way.to]).expect("a sum").to_bits(), 5.0_f64.to_bits());
    let (mut whole, mut rest) = (0, 0.0);
    assert_eq!(shapes.split(2.5, &mut whole, &mut rest).expect("an answer"), 0);
    assert_eq!((whole, rest.to_bits()), (2, 0.5_f64.to_bits()));
    // A structure with bit fields is bytes: three bits for the first number, and five for the second.
    let mut bits = flags { bytes: [0b1010_1110, 0, 0, 0, 0, 0, 0, 0] };
    assert_eq!(shapes.change(&mut bits).expect("a number"), 0b10101);
    assert_eq!(bits.bytes, [0b0011_0110, 0, 0, 0, 7, 0, 0, 0]);
}

#[test]
fn objects_stay_with_the_library() {
    let (_built, shapes) = start(plain());
    let mut shape = Handle::null();
    assert_eq!(shapes.shape_open(c"round", 1.5, &mut shape).expect("a shape"), 0);
    let copy = shapes.shape_copy(&shape).expect("a copy");
    shapes.shape_close(&shape).expect("closed");
    assert_eq!(shapes.shape_size(&copy).expect("a size").to_bits(), 1.5_f64.to_bits());
    assert_eq!(shapes.shape_name(&copy).expect("a name").as_deref(), Some(c"round"));
    assert!(shapes.shape_copy(&Handle::null()).expect("no copy").is_null());
    let mut none = Handle::null();
    assert_eq!(shapes.shape_open(None, 0.0, &mut none).expect("a refusal"), -1);
    assert!(none.is_null());
}

#[test]
fn closures_are_called_while_a_call_runs() {
    let (_built, shapes) = start(plain());
    let mut seen = Vec::new();
    let mut visit = |at: i32, name: Option<&CStr>, size: f64| {
        seen.push((at, name.map(CStr::to_owned), size.to_bits()));
        if at == 2 { 9 } else { 0 }
    };
    assert_eq!(shapes.each(5, Some(&mut visit)).expect("a status"), 9);
    let odd = Some(CString::from(c"odd"));
    assert_eq!(
        seen,
        [(0, None, 0.0_f64.to_bits()), (1, odd, 0.5_f64.to_bits()), (2, None, 1.0_f64.to_bits())]
    );
    assert_eq!(shapes.each(5, None).expect("a status"), 0);

    let mut all = Vec::new();
    let mut row = |columns: i32, values: &[Option<CString>], names: &[Option<CString>]| {
        all.push((columns, values.to_vec(), names.to_vec()));
        0
    };
    assert_eq!(shapes.rows(2, Some(&mut row)).expect("a status"), 0);
    let text = |text: &str| Some(CString::new(text).expect("no zero byte"));
    assert_eq!(all.len(), 2);
    assert_eq!(all[1], (2, vec![text("1"), None], vec![text("row"), text("empty")]));
}

#[test]
fn a_closure_may_call_the_library() {
    let (_built, shapes) = start(plain());
    let mut shape = Handle::null();
    shapes.shape_open(c"outer", 2.0, &mut shape).expect("a shape");
    let mut sizes = Vec::new();
    let mut met = |met: &Handle<shapes::shape>| {
        sizes.push(shapes.shape_size(met).expect("a size"));
        // A closure within a closure.
        let mut count = 0;
        shapes
            .each(
                3,
                Some(&mut |_, _, _| {
                    count += 1;
                    0
                }),
            )
            .expect("a status");
        sizes.push(f64::from(count));
    };
    assert_eq!(shapes.introduce(&shape, Some(&mut met)).expect("a status"), 1);
    assert_eq!(sizes, [2.0, 3.0]);
}

#[test]
fn a_closure_that_panics_ends_its_call_alone() {
    let (_built, shapes) = start(plain());
    let failed = shapes.each(3, Some(&mut |_, _, _| panic!("no"))).expect_err("a panic");
    assert!(failed.to_string().contains("no"), "{failed}");
    let mut count = 0;
    assert_eq!(
        shapes
            .each(
                3,
                Some(&mut |_, _, _| {
                    count += 1;
                    0
                })
            )
            .expect("a status"),
        0
    );
    assert_eq!(count, 3);
}

#[test]
fn the_library_keeps_an_address_of_memory_in_place() {
    let (_built, shapes) = start(plain());
    let memory = shapes.sandbox().memory(16).expect("memory");
    memory.write(4, &[41_u8]).expect("it fits");
    assert!(shapes.keep(memory.address()).expect("an address").is_null());
    assert_eq!(shapes.kept(4).expect("a byte"), 41);
    let mut bytes = [0_u8; 2];
    memory.read(4, &mut bytes).expect("it fits");
    assert_eq!(bytes, [42, 0]);
    assert_eq!(shapes.keep(ExecutorAddr::NULL).expect("an address"), memory.address());
    assert_eq!(
        memory.read(15, &mut bytes).expect_err("past the end").kind(),
        ErrorKind::InvalidArgument
    );
    // Structures in place.
    let place = shapes.sandbox().place(&point { x: 7, ..point::default() }).expect("memory");
    assert_eq!(shapes.sandbox().get(&place).expect("the structure").x, 7);
}

#[test]
fn after_a_crash_handles_are_errors_and_calls_are_right() {
    let (_built, shapes) = start(plain());
    let mut shape = Handle::null();
    shapes.shape_open(c"round", 1.5, &mut shape).expect("a shape");
    let place = shapes.sandbox().place(&point::default()).expect("memory");
    let crashed = shapes.crash().expect_err("a crash");
    assert!(crashed.to_string().contains("SIGSEGV"), "{crashed}");
    assert_eq!(shapes.add(1, 2).expect("the next process"), 3);
    let stale = shapes.shape_size(&shape).expect_err("its process has ended");
    assert_eq!(stale.kind(), ErrorKind::Disconnected);
    assert_eq!(
        shapes.sandbox().get(&place).expect_err("its process has ended").kind(),
        ErrorKind::Disconnected
    );
    assert!(shape.has_ended());
    // The library replaces it.
    shapes.shape_open(c"next", 2.5, &mut shape).expect("a shape");
    assert_eq!(shapes.shape_size(&shape).expect("a size").to_bits(), 2.5_f64.to_bits());
}

#[test]
fn a_call_over_its_time_ends_its_process() {
    let (_built, shapes) = start(plain().timeout_ms(200));
    assert_eq!(shapes.hang().expect_err("no answer").kind(), ErrorKind::Timeout);
    assert_eq!(shapes.add(1, 2).expect("the next process"), 3);
}

#[test]
fn an_archive_runs_strictly_confined() {
    let built = Built::new("shapes.c");
    let bytes = std::fs::read(built.path("libshapes.a")).expect("an archive");
    let sources =
        [LibrarySource::Shared("libm.so.6"), LibrarySource::Archive("libshapes.a", &bytes)];
    let shapes = Shapes::start_with(&sources, plain().strict()).expect("an executor");
    assert_eq!(shapes.mean(&[2.0, 4.0]).expect("a mean").to_bits(), 3.0_f64.to_bits());
    assert!(shapes.crash().is_err());
    assert_eq!(shapes.version().expect("text").as_deref(), Some(c"1.2"));
}

#[test]
fn a_library_in_several_processes_is_refused() {
    let refused = Shapes::start_with(&[], plain().processes(2)).expect_err("one process");
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
}

#[test]
fn a_library_that_is_missing_fails_the_start() {
    let missing = Shapes::start_with(&[LibrarySource::Shared("libnone.so.9")], plain())
        .expect_err("no such library");
    assert!(missing.to_string().contains("libnone.so.9"), "{missing}");
}
