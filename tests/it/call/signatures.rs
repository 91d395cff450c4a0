//! Functions by signatures that are known at run time. The checker is gcc: C with random signatures, each with a caller that gcc
//! compiled. A call from here must get the caller's result, with the same arguments.
//!
//! Invariant: arguments and results are compared number by number, in an order that the C source and this file share. No layout is
//! computed here.

use std::fmt::Write;
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use farcall::controller::{CallOptions, Executor, Function, Library};
use farcall::link::ObjectFile;
use farcall::types::{Declarations, Signature, Type, Value};
use farcall::{ErrorKind, ExecutorAddr};
use fastrand::Rng;

use crate::testkit::launch;

/// Functions in one source file.
const FUNCTIONS: usize = 250;
const PARAMETERS_MAX: u64 = 12;
const WAIT: Duration = Duration::from_secs(60);

/// A type as C names it, and the paths and types of its numbers.
#[derive(Debug, Clone)]
struct Spelled {
    name: String,
    numbers: Vec<(String, usize, bool)>,
}

/// Writes C with random signatures.
struct Writer {
    random: Rng,
    source: String,
    /// The structures so far.
    structures: Vec<Spelled>,
    types: Declarations,
}

impl Writer {
    fn number(&mut self) -> Spelled {
        const NUMBERS: [(&str, usize); 13] = [
            ("_Bool", 1),
            ("char", 1),
            ("unsigned char", 1),
            ("short", 2),
            ("uint16_t", 2),
            ("int", 4),
            ("unsigned", 4),
            ("long", 8),
            ("size_t", 8),
            ("float", 4),
            ("double", 8),
            ("const void *", 8),
            ("__m128i", 16),
        ];
        let (name, bytes) = NUMBERS[self.random.usize(..NUMBERS.len())];
        let numbers = vec![(String::new(), bytes, name == "_Bool")];
        Spelled { name: name.to_owned(), numbers }
    }

    /// A number, or one of the structures so far.
    fn any(&mut self) -> Spelled {
        if self.structures.is_empty() || self.random.u8(..2) == 0 {
            return self.number();
        }
        // Mostly the small ones, which registers take.
        let at = self.random.usize(..self.structures.len());
        self.structures[at].clone()
    }

    /// Defines a structure of up to five fields.
    fn structure(&mut self) {
        let name = format!("struct s{}", self.structures.len());
        let (mut body, mut numbers) = (String::new(), Vec::new());
        for field in 0..1 + self.random.u64(..4) {
            let kind = if self.random.u8(..4) == 0 { self.any() } else { self.number() };
            let count = if self.random.u8(..3) == 0 { 1 + self.random.u64(..3) } else { 0 };
            let suffix = if count > 0 { format!("[{count}]") } else { String::new() };
            write!(body, "{} f{field}{suffix}; ", kind.name).expect("a string");
            for at in 0..count.max(1) {
                let index = if count > 0 { format!("[{at}]") } else { String::new() };
                for (path, bytes, is_bool) in &kind.numbers {
                    numbers.push((format!(".f{field}{index}{path}"), *bytes, *is_bool));
                }
            }
        }
        if numbers.len() > 24 {
            return;
        }
        let definition = format!("{name} {{ {body}}};\n");
        self.types.declare(&definition).expect("a structure");
        self.source.push_str(&definition);
        self.structures.push(Spelled { name, numbers });
    }

    /// Writes a function, whose result follows from all its arguments, and its caller, which reads the arguments number by number
    /// and writes the result so. Returns the prototype, and the numbers of arguments and result.
    fn function(
        &mut self,
        at: usize,
    ) -> Result<(String, Vec<Spelled>, Option<Spelled>), std::fmt::Error> {
        let parameters: Vec<_> =
            (0..self.random.u64(..=PARAMETERS_MAX)).map(|_| self.any()).collect();
        let result = if self.random.u8(..10) == 0 { None } else { Some(self.any()) };
        let name = result.as_ref().map_or("void", |kind| &kind.name);
        let list: Vec<_> =
            parameters.iter().enumerate().map(|(p, kind)| format!("{} p{p}", kind.name)).collect();
        let list = if list.is_empty() { "void".to_owned() } else { list.join(", ") };
        let prototype = format!("{name} f{at}({list})");
        let out = &mut self.source;
        writeln!(out, "{prototype} {{ uint64_t h = {at};")?;
        for (p, kind) in parameters.iter().enumerate() {
            for (path, bytes, _) in &kind.numbers {
                writeln!(out, "h = mix(h, &p{p}{path}, {bytes});")?;
            }
        }
        writeln!(out, "sum += h;")?;
        if let Some(kind) = &result {
            writeln!(out, "{name} r;")?;
            for (path, bytes, is_bool) in &kind.numbers {
                match is_bool {
                    true => writeln!(out, "r{path} = (h = step(h)) >> 63;")?,
                    false => writeln!(out, "h = fill(step(h), (void *)&r{path}, {bytes});")?,
                }
            }
            writeln!(out, "return r;")?;
        }
        writeln!(
            out,
            "}}\nvoid g{at}(const char *in, char *out) {{ typeof(f{at}) *volatile f = f{at};"
        )?;
        for (p, kind) in parameters.iter().enumerate() {
            writeln!(out, "{} p{p};", kind.name.replace("const ", ""))?;
            for (path, bytes, _) in &kind.numbers {
                writeln!(out, "memcpy((void *)&p{p}{path}, in, {bytes}); in += {bytes};")?;
            }
        }
        let names: Vec<_> = (0..parameters.len()).map(|p| format!("p{p}")).collect();
        let assign = if result.is_some() { format!("{name} r = ") } else { String::new() };
        writeln!(out, "{assign}f({});", names.join(", "))?;
        for (path, bytes, _) in result.iter().flat_map(|kind| &kind.numbers) {
            writeln!(out, "memcpy(out, (void *)&r{path}, {bytes}); out += {bytes};")?;
        }
        writeln!(out, "}}")?;
        Ok((prototype, parameters, result))
    }
}

/// The value of a type whose numbers come from these bytes, one after the other.
fn value(kind: &Type, bytes: &mut &[u8]) -> Value {
    match kind {
        Type::Struct(one) => {
            Value::Fields(one.fields().iter().map(|field| value(&field.kind, bytes)).collect())
        }
        Type::Array(element, count) => {
            Value::Fields((0..*count).map(|_| value(element, bytes)).collect())
        }
        number => {
            let (own, rest) = bytes.split_at(number.bytes());
            *bytes = rest;
            Value::from_bytes(number, own).expect("a number")
        }
    }
}

/// The bytes of the numbers of a value, one after the other.
fn numbers(value: Value, kind: &Type, bytes: &mut Vec<u8>) {
    match kind {
        Type::Struct(one) => {
            let fields = value.into_fields(kind).expect("a structure");
            for (field, of) in fields.into_iter().zip(one.fields()) {
                numbers(field, &of.kind, bytes);
            }
        }
        Type::Array(element, _) => {
            for one in value.into_fields(kind).expect("an array") {
                numbers(one, element, bytes);
            }
        }
        number => bytes.extend(value.to_bytes(number).expect("a number")),
    }
}

/// Calls one function in the way that its number says.
fn call(function: &Function<Signature>, arguments: &[Value], way: usize) -> Value {
    let result = match way % 4 {
        0 => function.call(arguments),
        1 => function.call_with(&CallOptions::new().timeout(WAIT), arguments),
        2 => function.submit(arguments).and_then(|pending| pending.wait()),
        _ => {
            let batch = function.batch([arguments; 3]).expect("submitted");
            let results: Vec<_> = batch.map(|result| result.expect("a result")).collect();
            assert!(results.len() == 3 && results.iter().all(|one| same(one, &results[0])));
            Ok(results[0].clone())
        }
    };
    result.expect("a result")
}

/// Equal in every bit, NaN included.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::F64(one), Value::F64(other)) => one.to_bits() == other.to_bits(),
        (Value::F32(one), Value::F32(other)) => one.to_bits() == other.to_bits(),
        // Padding may differ.
        (Value::Bytes(one), Value::Bytes(other)) => one.len() == other.len(),
        (one, other) => one == other,
    }
}

/// True if the error says that the convention of AArch64 passes the address of such a structure, which the caller has to make.
fn is_limit_of_processor(error: &str) -> bool {
    let refused = ["pass the address of such a structure", "return it by an address"];
    std::env::consts::ARCH == "aarch64" && refused.iter().any(|refused| error.contains(refused))
}

/// Compiles, links and compares the functions of one source file. Returns how many there were.
fn check_file(seed: u64) -> usize {
    let mut writer = Writer {
        random: Rng::with_seed(seed),
        source: String::new(),
        structures: Vec::new(),
        types: Declarations::new(),
    };
    writer.source.push_str(
        "#include <stdint.h>\n#include <string.h>\nuint64_t sum;\n\
         typedef long long __m128i __attribute__((vector_size(16), may_alias));\n\
         static uint64_t step(uint64_t h) { return h * 6364136223846793005u + 1442695040888963407u; }\n\
         static __attribute__((noinline)) uint64_t mix(uint64_t h, const volatile void *p, int n) {\n\
         for (int i = 0; i < n; i++) h = (h ^ ((const volatile uint8_t *)p)[i]) * 0x100000001b3u; return h; }\n\
         static __attribute__((noinline)) uint64_t fill(uint64_t h, void *p, int n) {\n\
         for (int i = 0; i < n; i++) { ((uint8_t *)p)[i] = h >> 56; h = step(h); } return h; }\n",
    );
    (0..40).for_each(|_| writer.structure());
    let functions: Vec<_> =
        (0..FUNCTIONS).map(|at| writer.function(at).expect("a string")).collect();
    let base =
        std::env::temp_dir().join(format!("farcall-signatures-{}-{seed}", std::process::id()));
    let [source, object] = ["c", "o"].map(|end| base.with_extension(end));
    fs::write(&source, &writer.source).expect("a file");
    let built =
        Command::new("gcc").args(["-O1", "-w", "-c", "-o"]).arg(&object).arg(&source).output();
    let built = built.expect("gcc is installed");
    let bytes = fs::read(&object);
    for file in [&source, &object] {
        let _ = fs::remove_file(file);
    }
    assert!(built.status.success(), "seed {seed}: {}", String::from_utf8_lossy(&built.stderr));

    let executor = launch::executor();
    let process = executor.process().expect("a process");
    let dylib = executor.library("signatures");
    let object = ObjectFile::parse("signatures.o", bytes.expect("an object")).expect("an object");
    dylib.add_object(&object).expect("added");
    let mut room = process.buffer(4096).expect("room");
    let (input, output) = (room.address(), ExecutorAddr::new(room.address().get() + 2048));
    let Writer { mut random, types, .. } = writer;
    for (at, (prototype, parameters, result)) in functions.iter().enumerate() {
        let what = format!("seed {seed}, {prototype}");
        let signature =
            types.signature(prototype).unwrap_or_else(|error| panic!("{what}: {error}"));
        let address = dylib.lookup(&format!("f{at}")).expect("defined");
        let function = match process.function_with(address, &signature) {
            Err(error) if is_limit_of_processor(&error.to_string()) => continue,
            function => function.expect(&what),
        };

        let mut bytes = Vec::new();
        for (_, size, is_bool) in parameters.iter().flat_map(|kind| &kind.numbers) {
            match is_bool {
                true => bytes.push(random.bool().into()),
                false => bytes.extend((0..*size).map(|_| random.u8(..))),
            }
        }
        room.write(0, &bytes);
        let caller = dylib.lookup(&format!("g{at}")).expect("defined");
        type Caller = extern "C" fn(ExecutorAddr, ExecutorAddr);
        process.function::<Caller>(caller).call((input, output)).expect(&what);
        let size: usize =
            result.iter().flat_map(|kind| &kind.numbers).map(|(_, size, _)| size).sum();
        let due = room.read(2048..2048 + size);

        let mut rest = &bytes[..];
        let arguments: Vec<_> =
            signature.parameters().iter().map(|kind| value(kind, &mut rest)).collect();
        assert!(rest.is_empty(), "{what}");
        let given = call(&function, &arguments, at);
        let mut found = Vec::new();
        match signature.result() {
            None => assert_eq!(given, Value::Void, "{what}"),
            Some(kind) => numbers(given, kind, &mut found),
        }
        assert_eq!(found, due, "{what}: {arguments:?}");
    }
    functions.len()
}

#[test]
fn random_signatures_as_gcc_calls_them() {
    assert_eq!((1..=2).map(check_file).sum::<usize>(), 2 * FUNCTIONS);
}

#[test]
#[ignore = "up to two minutes: .ci/run runs it"]
fn soak_random_signatures_as_gcc_calls_them() {
    let start = Instant::now();
    let functions: usize = (100..140).map(check_file).sum();
    assert_eq!(functions, 10_000);
    println!("soak: {functions} random signatures as gcc calls them in {:.1?}", start.elapsed());
}

/// Functions of `signatures.c`, with debug information.
fn session() -> (Executor, Library) {
    let executor = launch::executor();
    let dylib = executor.library("signatures");
    dylib.check_types().expect("added");
    let build = crate::testkit::corpus::gcc(&["-O1", "-g"]);
    let object = fs::read(crate::testkit::corpus::object("signatures.c", build)).expect("a file");
    dylib
        .add_object(&ObjectFile::parse("signatures.o", object).expect("an object"))
        .expect("added");
    (executor, dylib)
}

fn signature(prototype: &str) -> Signature {
    prototype.parse().expect("a prototype")
}

#[test]
fn every_way_of_calling_on_every_kind_of_function() {
    let (executor, dylib) = session();
    let process = executor.process().expect("a process");
    let typed = dylib.function::<extern "C" fn(i64, f64) -> f64>("scale").bind().expect("its type");
    let untyped = dylib
        .function_with("scale", &signature("double f(long, double)"))
        .and_then(|one| one.bind())
        .expect("its type");
    for number in -50..50_i64 {
        let (unit, due) = (number as f64 / 3.0, number as f64 * (number as f64 / 3.0));
        let arguments = [number.into(), unit.into()];
        assert_eq!(typed.call((number, unit)).expect("a result"), due);
        assert_eq!(
            typed.call_with(&CallOptions::new().timeout(WAIT), (number, unit)).expect("a result"),
            due
        );
        assert_eq!(typed.submit((number, unit)).expect("sent").wait().expect("a result"), due);
        assert_eq!(untyped.call(&arguments).expect("a result"), due.into());
        assert_eq!(
            untyped.call_with(&CallOptions::new().timeout(WAIT), &arguments).expect("a result"),
            due.into()
        );
        let pending = untyped.submit(&arguments).expect("sent");
        assert_eq!(pending.wait_timeout(WAIT).expect("a result"), due.into());
    }
    let due: Vec<f64> = (0..1000_i32).map(|number| f64::from(number) * 0.5).collect();
    let rows = (0..1000_i64).map(|number| (number, 0.5));
    let results: farcall::Result<Vec<f64>> = typed.batch(rows).expect("sent").collect();
    assert_eq!(results.expect("results"), due);
    let own = process.pipeline().expect("a pipeline");
    let rows: Vec<_> = (0..1000_i64).map(|number| [number.into(), 0.5.into()]).collect();
    let batch = untyped
        .over(&own)
        .expect("of this process")
        .batch(rows.iter().map(|row| &row[..]))
        .expect("sent");
    assert_eq!(batch.left(), 1000);
    let results = batch.wait_timeout(WAIT).into_iter().map(|result| result.expect("a result"));
    assert!(results.eq(due.iter().map(|number| Value::F64(*number))));

    let bytes =
        dylib.function::<farcall::controller::calls::Bytes>("echo").bind().expect("defined");
    assert_eq!(bytes.call(b"12345678").expect("a result"), b"12345678");
    assert_eq!(
        bytes.call_with(&CallOptions::new().timeout(WAIT), b"12345678").expect("a result"),
        b"12345678"
    );
    assert_eq!(bytes.submit(b"12345678").expect("sent").wait().expect("a result"), b"12345678");
    let rows: [&[u8]; 3] = [b"12345678", b"1234567", b"123456789"];
    let results: Vec<_> =
        bytes.batch(rows).expect("sent").map(|one| one.expect("a result")).collect();
    assert_eq!(results, [&b"12345678"[..], b"1234567\0", b"12345678"]);
    assert_eq!(typed.batch([]).expect("nothing").count(), 0);
    let nothing = dylib.function::<extern "C" fn() -> i32>("counted").bind().expect("its type");
    let results: farcall::Result<Vec<i32>> = nothing.batch([(); 300]).expect("sent").collect();
    assert_eq!(results.expect("results"), (1..=300).collect::<Vec<i32>>());
}

#[test]
fn every_mismatch_is_an_error_that_shows_both() {
    let (executor, dylib) = session();
    let process = executor.process().expect("a process");
    let scale = dylib
        .function_with("scale", &signature("double f(long, double)"))
        .and_then(|one| one.bind())
        .expect("its type");
    let before = process.stats().calls;
    let point = Value::Fields(vec![1.0.into(), 2.0.into()]);
    for (arguments, why) in [
        (vec![], "double f(int64_t, double): expected 2 arguments, given 0"),
        (vec![1_i64.into()], "expected 2 arguments, given 1"),
        (vec![1_i64.into(), 2.0.into(), 3.0.into()], "expected 2 arguments, given 3"),
        (vec![1_i32.into(), 2.0.into()], "argument 1: expected int64_t, given int32_t"),
        (vec![1_u64.into(), 2.0.into()], "argument 1: expected int64_t, given uint64_t"),
        (vec![1_i64.into(), 2_f32.into()], "argument 2: expected double, given float"),
        (vec![1_i64.into(), Value::Void], "argument 2: expected double, given void"),
        (vec![1_i64.into(), point.clone()], "argument 2: expected double, given 2 fields"),
        (vec![1_i64.into(), Value::Bytes(vec![0; 8])], "expected double, given 8 bytes"),
    ] {
        let all = [
            scale.call(&arguments).expect_err(why),
            scale.call_with(&CallOptions::new().timeout(WAIT), &arguments).expect_err(why),
            scale.submit(&arguments).expect_err(why),
            scale.batch([&[1_i64.into(), 2.0.into()][..], &arguments]).expect_err(why),
        ];
        for error in all {
            assert_eq!(error.kind(), ErrorKind::TypeMismatch);
            assert!(error.to_string().contains(why), "{error}");
        }
    }
    assert_eq!(process.stats().calls, before, "nothing was sent");
    let mut types = Declarations::new();
    types.declare("struct point { double x, y; };").expect("a structure");
    let length = types.signature("double f(struct point)").expect("a prototype");
    let length =
        dylib.function_with("length", &length).and_then(|one| one.bind()).expect("its type");
    assert_eq!(length.call(&[point]).expect("a result"), 3.0.into());
    for (value, why) in [
        (
            Value::Fields(vec![1.0.into()]),
            "expected struct point of 16 bytes, 2 fields, given 1 fields",
        ),
        (
            Value::Fields(vec![1.0.into(), 2_i64.into()]),
            "field y of struct point: expected double, given int64_t",
        ),
        (Value::Bytes(vec![0; 15]), "given 15 bytes"),
        (Value::F64(1.0), "given double"),
    ] {
        let error = length.call(&[value]).expect_err(why);
        assert!(
            error.kind() == ErrorKind::TypeMismatch && error.to_string().contains(why),
            "{error}"
        );
    }
}

#[test]
fn a_look_up_that_disagrees_with_dwarf_shows_both() {
    let (executor, dylib) = session();
    let wrong = |prototype: &str, name: &str| {
        let error = dylib
            .function_with(name, &signature(prototype))
            .and_then(|one| one.bind())
            .expect_err(prototype);
        assert_eq!(error.kind(), ErrorKind::TypeMismatch, "{error}");
        error.to_string()
    };
    let error = wrong("long f(long, double)", "scale");
    let both =
        ["`double scale(int64_t, double)` in signatures.o", "not `int64_t scale(int64_t, double)`"];
    assert!(both.iter().all(|one| error.contains(one)), "{error}");
    wrong("double f(long)", "scale");
    wrong("double f(unsigned long, double)", "scale");
    wrong("void f(long, double)", "scale");
    wrong("double f(struct { double x; float y; })", "length");
    wrong("double f(double, double)", "length");
    let error =
        dylib.function::<extern "C" fn(f64) -> i32>("counted").bind().expect_err("another type");
    assert!(error.to_string().contains("not `int32_t counted(double)`"), "{error}");
    // Names do not count, and all the types of the file are read.
    let mixed = "short f(struct { char c; struct { float f[2]; } in; }, enum e, const char *, __m128, _Bool)";
    dylib.function_with("mixed", &signature(mixed)).and_then(|one| one.bind()).expect("its type");
    wrong(&mixed.replace("[2]", "[3]"), "mixed");
    // Nothing says what these take.
    dylib
        .function_with("variadic", &signature("int f(int)"))
        .and_then(|one| one.bind())
        .expect("not compared");
    dylib
        .function_with("of_union", &signature("int f(long)"))
        .and_then(|one| one.bind())
        .expect("not compared");

    // Without the question no object is kept, and nothing is compared.
    let plain = executor.library("plain");
    let build = crate::testkit::corpus::gcc(&["-O1", "-g"]);
    let object = fs::read(crate::testkit::corpus::object("signatures.c", build)).expect("a file");
    plain
        .add_object(&ObjectFile::parse("signatures.o", object).expect("an object"))
        .expect("added");
    plain
        .function_with("scale", &signature("long f(long, double)"))
        .and_then(|one| one.bind())
        .expect("not compared");
}

#[test]
fn a_crash_in_a_batch_takes_no_result_before_it() {
    let (controller, dylib) = session();
    let inverse =
        dylib.function::<extern "C" fn(i32, i32) -> i32>("quotient").bind().expect("its type");
    // AArch64 divides by zero, and the function traps.
    let signal = if std::env::consts::ARCH == "aarch64" { 5 } else { 8 };
    let rows = (0..100).map(|number| (1000, 60 - number));
    let results: Vec<_> = inverse.batch(rows).expect("sent").collect();
    assert_eq!(results.len(), 100);
    for (at, result) in (0_i32..).zip(results) {
        match result {
            Ok(quotient) => {
                assert_eq!((at < 60).then(|| 1000 / (60 - at)), Some(quotient), "row {at}")
            }
            Err(error) => {
                assert!(at >= 60, "{at}: {error}");
                assert_eq!(error.death().expect("a death").signal, Some(signal), "{error}");
            }
        }
    }
    let error = inverse.submit((1, 1)).and_then(|pending| pending.wait()).expect_err("it is dead");
    assert!(error.is_disconnected(), "{error}");
    drop(controller);
}

#[test]
fn a_timeout_in_a_batch_takes_no_result_before_it() {
    let (executor, dylib) = session();
    let process = executor.process().expect("a process");
    let open = dylib.function::<extern "C" fn()>("open_gate").bind().expect("its type");
    let wait_for =
        dylib.function::<extern "C" fn(i32) -> i32>("wait_for").bind().expect("its type");
    // Row 40 waits for the gate, which is opened later.
    let rows = (0..100).map(|row| (if row == 40 { -1 } else { row },));
    let mut batch = wait_for.batch(rows).expect("sent");
    let before: Vec<_> = batch.by_ref().take(40).map(|result| result.expect("a result")).collect();
    assert_eq!(before, (0..40).collect::<Vec<i32>>());
    let late = wait_for.submit((7,)).expect("sent");
    assert_eq!(
        late.wait_timeout(Duration::from_millis(1)).expect_err("late").kind(),
        ErrorKind::Timeout
    );
    let rest = batch.wait_timeout(Duration::from_millis(1));
    assert_eq!(rest.len(), 60, "one for each call");
    assert!(rest.into_iter().all(|one| one.expect_err("it waits").kind() == ErrorKind::Timeout));
    open.call(()).expect("it returns");
    // Later calls do not wait for the late results, which are counted as they come.
    let deadline = Instant::now() + Duration::from_secs(20);
    while process.stats().late < 61 {
        assert!(Instant::now() < deadline, "{} results came late", process.stats().late);
        assert_eq!(wait_for.submit((8,)).expect("sent").wait().expect("a result"), 8);
    }
    assert_eq!(process.stats().late, 61);
}
