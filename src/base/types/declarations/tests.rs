//! Prototypes: from C's own headers, texts that are no prototype, and random ones that are written and read again.

use super::*;
use crate::random::Random;

fn read(prototype: &str) -> String {
    let signature = prototype.parse::<Signature>();
    signature.unwrap_or_else(|error| panic!("{prototype}: {error}")).to_string()
}

#[test]
fn prototypes_as_headers_write_them() {
    assert_eq!(read("double f(double, const struct p*)"), "double f(double, void *)");
    assert_eq!(read("int main(int argc, char **argv);"), "int32_t main(int32_t, void *)");
    assert_eq!(read("void *malloc(size_t)"), "void *malloc(uint64_t)");
    assert_eq!(read("extern void exit (int) "), "void exit(int32_t)");
    assert_eq!(
        read("void (*signal(int sig, void (*func)(int)))(int)"),
        "void *signal(int32_t, void *)"
    );
    let qsort =
        "void qsort(void *base, size_t n, size_t size, int (*compare)(const void *, const void *))";
    assert_eq!(read(qsort), "void qsort(void *, uint64_t, uint64_t, void *)");
    assert_eq!(
        read("long unsigned int f(unsigned long long int, short)"),
        "uint64_t f(uint64_t, int16_t)"
    );
    assert_eq!(
        read("signed char f(unsigned char c, _Bool, char x[4][8])"),
        "int8_t f(uint8_t, bool, void *)"
    );
    assert_eq!(read("enum color f(enum { RED, BLUE = 3 })"), "uint32_t f(uint32_t)");
    assert_eq!(read("float f(/* none */ void) // end"), "float f(void)");
    assert_eq!(read("int()"), "int32_t f(void)");
    assert_eq!(
        read("struct { int a; } f(struct b { char c[3], *d; })"),
        "struct { int32_t a; } f(struct b)"
    );
}

#[test]
fn targets_of_pointers_are_read_through_every_spelling() {
    let mut types = Declarations::new();
    let text = "struct p { double x; }; typedef const double *column; typedef int (*order)(int); \
                typedef char letter; typedef double three[3];";
    types.declare(text).expect("declarations");
    let double = || Target::Value(Type::F64);
    let three = || Target::Value(Type::array(Type::F64, 3));
    let function =
        || Target::Function("int f(int)".parse::<Signature>().expect("a type").named(""));
    for (parameter, target, is_const) in [
        ("const double *x", double(), true),
        ("double const *const x", double(), true),
        ("double *const x", double(), false),
        ("const double x[]", double(), true),
        ("column x", double(), true),
        ("column *x", Target::Value(Type::Pointer), false),
        ("double *const *x", Target::Value(Type::Pointer), true),
        ("const double (*x)[3]", three(), true),
        ("const double x[][3]", three(), true),
        ("three *x", three(), false),
        ("const three x", double(), true),
        ("const char *x", Target::Character, true),
        ("char x[8]", Target::Character, false),
        ("const letter *x", Target::Character, true),
        ("signed char *x", Target::Value(Type::I8), false),
        ("const unsigned char *x", Target::Value(Type::U8), true),
        ("const void *x", Target::Void, true),
        ("struct q *x", Target::Undefined("q".to_owned()), false),
        ("const __m128d *x", Target::Value(Type::array(Type::F64, 2)), true),
        ("const __m128 *x", Target::Value(Type::array(Type::F32, 4)), true),
        ("const __m128i *x", Target::Value(Type::V128), true),
        ("order x", function(), false),
        ("int (*x)(int)", function(), false),
        ("int x(int)", function(), false),
    ] {
        let read = types.parameters(&format!("void f({parameter})")).expect(parameter);
        let [Parameter { name, kind: Type::Pointer, pointee: Some(pointee) }] = &read[..] else {
            panic!("{parameter}: {read:?}")
        };
        assert_eq!(name, "x", "{parameter}");
        assert_eq!((&pointee.target, pointee.is_const), (&target, is_const), "{parameter}");
    }
    let point = types.parameters("void f(const struct p *)").expect("a structure");
    let target = point[0].pointee.as_ref().map(|one| &one.target);
    assert!(matches!(target, Some(Target::Value(Type::Struct(one))) if one.name() == "p"));
}

/// P11: compilers make names that C cannot write.
#[test]
fn names_of_compilers_are_names() {
    for name in ["cfunc._ZN8__main__3addB2v1Edd", "f.cold", "$s4main", "f$2", "g.llvm.12"] {
        let read = format!("double {name}(double)").parse::<Signature>().expect(name);
        assert_eq!(read.name(), name);
    }
    for wrong in ["double f.(double)", "double .f(double)", "double f..g(double)"] {
        assert!(wrong.parse::<Signature>().is_err(), "{wrong}");
    }
}

#[test]
fn the_error_of_a_text_that_is_no_prototype_shows_its_column() {
    for (prototype, column, why) in [
        ("double f(double, struct p)", 26, "`struct p` is not defined"),
        ("double f(dubble)", 10, "no type is named `dubble`"),
        ("int f(int", 10, "expected `)`, found the end"),
        ("int f(long double)", 7, "`double long` is no type"),
        ("int f(int,)", 11, "expected a type, found `)`"),
        ("int f", 5, "this is no function"),
        ("int f(int) g", 12, "expected the end, found `g`"),
        ("int printf(const char *, ...)", 26, "give the types of the arguments"),
        ("void f(void, int)", 12, "`void` is no value"),
        ("void f(union u)", 8, "unions are not passed"),
        ("void f(struct { int a : 3; })", 23, "bit-fields"),
        ("void f(struct { })", 18, "without fields"),
        ("void f(struct { int a[]; })", 21, "without elements"),
        ("void f(int x[09])", 14, "`09` is no number"),
        ("void f(int x[1) ", 15, "expected `]`, found `)`"),
        ("int f(void)(void)", 12, "expected the end"),
        ("", 1, "expected a type, found the end"),
        ("/* f", 1, "a comment without an end"),
        ("é f(void)", 1, "expected a type, found `é`"),
    ] {
        let error = prototype.parse::<Signature>().expect_err(prototype).to_string();
        assert!(error.contains(why), "{prototype}: {error}");
        assert!(error.starts_with(&format!("column {column} of ")), "{prototype}: {error}");
    }
    let mut types = Declarations::new();
    let error = types.declare("struct a { int b; };\nstruct c { d e; };").expect_err("no d");
    assert!(error.to_string().starts_with("line 2, column 12 of `struct c { d e; };`"), "{error}");
    let fine = types.signature("void f(struct a)").expect("the declaration before it stays");
    assert_eq!(fine.parameters()[0].bytes(), 4);
}

#[test]
fn deep_and_long_texts_end() {
    for text in [
        "(".repeat(100_000),
        format!("int {}f{}(void)", "(*".repeat(10_000), ")".repeat(10_000)),
        format!("int f({}", "int(*)(".repeat(10_000)),
        format!("void f({}", "struct {".repeat(10_000)),
        format!("void f(struct {{ int a{}; }})", "[2]".repeat(10_000)),
        format!("void f({})", "int, ".repeat(100_000)),
    ] {
        assert!(text.parse::<Signature>().is_err());
    }
}

/// A10: names carry types from one text to the next, so no text is deep.
#[test]
fn types_that_lie_deep_in_each_other_by_name_are_refused() {
    let mut types = Declarations::new();
    types.declare("typedef struct { int a; } t0; typedef int u0[1];").expect("flat");
    let mut made = 0;
    for at in 1..=200_000 {
        let before = at - 1;
        let nested =
            format!("typedef struct {{ t{before} a; }} t{at}; typedef u{before} u{at}[1];");
        match types.declare(&nested) {
            Ok(()) => made = at,
            Err(error) => {
                assert!(error.to_string().contains("more than 64 deep"), "{error}");
                break;
            }
        }
    }
    assert_eq!(made, 63, "types in each other");
    let signature = types.signature("void f(t63)").expect("it is no deeper");
    assert_eq!(signature.parameters()[0].bytes(), 4);
    types.define(Struct::new("own").field("a", signature.parameters()[0].clone()));
    assert!(
        types.declare("struct more { struct own a; };").is_err(),
        "also in a structure of the host's"
    );
}

/// A random type for fields and parameters, as C writes it in front of a name.
fn random_type(random: &mut Random, types: &mut Declarations, depth: usize) -> (Type, String) {
    let numbers = [
        (Type::Bool, "_Bool"),
        (CHAR, "char"),
        (Type::U8, "unsigned char"),
        (Type::I16, "int short"),
        (Type::U16, "uint16_t"),
        (Type::I32, "signed"),
        (Type::U32, "unsigned int"),
        (Type::I64, "long int long"),
        (Type::U64, "const size_t"),
        (Type::F32, "float"),
        (Type::F64, "volatile double"),
        (Type::Pointer, "struct nothing const *"),
        (Type::V128, "__m128i"),
    ];
    match random.index(numbers.len() + 3).checked_sub(numbers.len()) {
        None => {
            let (kind, text) = &numbers[random.index(numbers.len())];
            (kind.clone(), (*text).to_owned())
        }
        Some(_) if depth == 3 => (Type::I32, "int".to_owned()),
        Some(way) => {
            let mut one = Struct::new(format!("s{}", random.word()));
            let mut text = format!("struct {} {{ ", one.name());
            for at in 0..1 + random.below(4) {
                let (mut kind, field) = random_type(random, types, depth + 1);
                text.push_str(&format!("{field} f{at}"));
                if random.one_in(3) {
                    let count = 1 + random.index(3);
                    kind = Type::array(kind, count);
                    text.push_str(&format!("[{count}]"));
                }
                text.push_str("; ");
                one = one.field(format!("f{at}"), kind);
            }
            text.push('}');
            if way > 0 {
                types.declare(&format!("{text};")).expect("a structure");
                text = format!("struct {}", one.name());
            }
            (Type::from(one), text)
        }
    }
}

#[test]
fn random_prototypes_are_read_as_they_were_meant() {
    let mut random = Random::new(41);
    for round in 0..2000 {
        let mut types = Declarations::new();
        let mut meant = Signature::new().named("f");
        let (result, mut text) = random_type(&mut random, &mut types, 0);
        if random.one_in(4) {
            text = "void".to_owned();
        } else {
            meant = meant.returns(result);
        }
        text.push_str(" f(");
        for at in 0..random.below(6) {
            let (kind, parameter) = random_type(&mut random, &mut types, 0);
            let comma = if at == 0 { "" } else { ", " };
            let name = if random.one_in(2) { format!(" p{at}") } else { String::new() };
            text.push_str(&format!("{comma}{parameter}{name}"));
            meant = meant.parameter(kind);
        }
        text.push(')');
        let read = types.signature(&text).unwrap_or_else(|error| panic!("round {round}: {error}"));
        assert_eq!(read, meant, "{text}");
        // A prototype that is cut off or spoiled is an error or another prototype, and never a panic.
        let end = random.index(text.len());
        assert!(types.signature(&text[..end]).is_err(), "{}", &text[..end]);
        let spoiled = text.replacen(['(', ',', '{', ';'], ["", ")", "*", "[7"][random.index(4)], 1);
        let _ = types.signature(&spoiled);
    }
}
