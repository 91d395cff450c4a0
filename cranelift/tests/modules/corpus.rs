//! Random programs in Cranelift's IR. The same seed makes the same program.
//!
//! Functions have levels, and call only functions of the next level, so every program ends. None traps: divisors are odd, and
//! conversions saturate.

use std::fmt::Write as _;

use fastrand::Rng;

/// The number of levels. The host calls functions of the first.
pub(crate) const LEVELS: usize = 4;
/// Variables of 64 bytes that all functions share.
pub(crate) const VARIABLES: u32 = 6;
/// The data object with addresses of functions of the last level.
pub(crate) const TABLE: u32 = VARIABLES;
pub(crate) const VARIABLE_BYTES: usize = 64;
/// The imports of programs: names of the C library, and their types.
pub(crate) const IMPORTS: [(&str, &str); 4] = [
    ("labs", "(i64) -> i64 system_v"),
    ("cbrt", "(f64) -> f64 system_v"),
    ("hypot", "(f64, f64) -> f64 system_v"),
    ("ldexp", "(f64, i32) -> f64 system_v"),
];
/// The type of what the host calls, and of the functions in the table.
pub(crate) const HOST: &str = "(i64, i64, f64, f64) -> i64 system_v";

#[derive(Debug, Clone, Copy, PartialEq)]
enum Type {
    I32,
    I64,
    F32,
    F64,
}

const TYPES: [Type; 4] = [Type::I32, Type::I64, Type::F32, Type::F64];

impl Type {
    fn name(self) -> &'static str {
        ["i32", "i64", "f32", "f64"][self as usize]
    }

    fn bytes(self) -> usize {
        [4, 8, 4, 8][self as usize]
    }

    fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F64)
    }
}

/// A program: functions `u0:0` and up, behind them the [`IMPORTS`].
pub(crate) struct Program {
    pub(crate) functions: Vec<Function>,
}

pub(crate) struct Function {
    pub(crate) text: String,
    pub(crate) signature: String,
    /// The host calls it; its type is [`HOST`].
    pub(crate) is_for_host: bool,
}

struct Shape {
    params: Vec<Type>,
    result: Type,
}

impl Shape {
    fn text(&self) -> String {
        let params: Vec<_> = self.params.iter().map(|one| one.name()).collect();
        format!("({}) -> {} system_v", params.join(", "), self.result.name())
    }
}

impl Program {
    /// A program of this many functions, at least one for each level.
    pub(crate) fn random(seed: u64, functions: usize) -> Self {
        let mut rng = Rng::with_seed(seed);
        let level_of = |number: usize| number % LEVELS;
        let host = || Shape {
            params: vec![Type::I64, Type::I64, Type::F64, Type::F64],
            result: Type::I64,
        };
        let shapes: Vec<Shape> = (0..functions)
            .map(|number| match level_of(number) {
                0 | 3 => host(),
                _ => Shape {
                    params: (0..rng.usize(0..9)).map(|_| one_of(&mut rng, &TYPES)).collect(),
                    result: one_of(&mut rng, &TYPES),
                },
            })
            .collect();
        let make = |number: usize| {
            let level = level_of(number);
            let callees = (0..functions).filter(|one| level_of(*one) == level + 1).collect();
            let signature = shapes[number].text();
            let body = Body::new(&mut rng, &shapes, callees);
            Function { text: body.function(number), signature, is_for_host: level == 0 }
        };
        Self { functions: (0..functions).map(make).collect() }
    }
}

fn one_of<T: Copy>(rng: &mut Rng, all: &[T]) -> T {
    all[rng.usize(0..all.len())]
}

/// A function while it is made.
struct Body<'a> {
    rng: &'a mut Rng,
    shapes: &'a [Shape],
    callees: Vec<usize>,
    head: String,
    text: String,
    /// The values that can be used here.
    values: Vec<(u32, Type)>,
    next_value: u32,
    next_block: u32,
    calls_left: usize,
    externals: Vec<String>,
}

impl<'a> Body<'a> {
    fn new(rng: &'a mut Rng, shapes: &'a [Shape], callees: Vec<usize>) -> Self {
        let (head, text) = (String::new(), String::new());
        let (values, externals) = (Vec::new(), Vec::new());
        Self {
            rng,
            shapes,
            callees,
            head,
            text,
            values,
            next_value: 0,
            next_block: 1,
            calls_left: 3,
            externals,
        }
    }

    fn function(mut self, number: usize) -> String {
        let shape = &self.shapes[number];
        let params: Vec<_> = shape.params.iter().map(|one| (self.fresh(), *one)).collect();
        let list: Vec<_> =
            params.iter().map(|(v, kind)| format!("v{v}: {}", kind.name())).collect();
        self.values = params;
        writeln!(self.text, "block0({}):", list.join(", ")).unwrap();
        for kind in TYPES {
            let value = self.constant(kind);
            self.values.push((value, kind));
        }
        // The stack slot has defined bytes.
        let zero = self.line("iconst.i64 0");
        let slot = self.line("stack_addr.i64 ss0");
        for offset in (0..32).step_by(8) {
            writeln!(self.text, "    store v{zero}, v{slot}+{offset}").unwrap();
        }
        self.statements(12, 0);
        let result = self.shapes[number].result;
        let mut sum = self.pick(result);
        for _ in 0..3 {
            let other = self.pick(result);
            let operator = if result.is_float() { "fadd" } else { "iadd" };
            sum = self.line(&format!("{operator} v{sum}, v{other}"));
        }
        writeln!(self.text, "    return v{sum}").unwrap();
        let signature = self.shapes[number].text();
        let externals = self.externals.join("");
        format!(
            "function u0:{number}{signature} {{\n    ss0 = explicit_slot 32, align = 16\n{}{externals}\n{}}}\n",
            self.head, self.text
        )
    }

    fn fresh(&mut self) -> u32 {
        self.next_value += 1;
        self.next_value - 1
    }

    fn block(&mut self) -> u32 {
        self.next_block += 1;
        self.next_block - 1
    }

    /// An instruction with one result.
    fn line(&mut self, instruction: &str) -> u32 {
        let value = self.fresh();
        writeln!(self.text, "    v{value} = {instruction}").unwrap();
        value
    }

    fn keep(&mut self, instruction: &str, kind: Type) {
        let value = self.line(instruction);
        self.values.push((value, kind));
    }

    fn constant(&mut self, kind: Type) -> u32 {
        let float = f64::from(self.rng.i16(..)) / 16.0;
        match kind {
            Type::I32 => {
                let number = self.rng.i32(..);
                self.line(&format!("iconst.i32 {number}"))
            }
            Type::I64 => {
                let number = self.rng.i64(..);
                self.line(&format!("iconst.i64 {number}"))
            }
            Type::F32 => {
                let number = self.line(&format!("iconst.i32 {}", (float as f32).to_bits()));
                self.line(&format!("bitcast.f32 v{number}"))
            }
            Type::F64 => {
                let number = self.line(&format!("iconst.i64 {}", float.to_bits().cast_signed()));
                self.line(&format!("bitcast.f64 v{number}"))
            }
        }
    }

    /// A value of this type.
    fn pick(&mut self, kind: Type) -> u32 {
        let of_kind: Vec<_> = self.values.iter().filter(|(_, other)| *other == kind).collect();
        // Later values more often, so that results hang on all that came before.
        let from = if self.rng.bool() { of_kind.len() / 2 } else { 0 };
        of_kind[self.rng.usize(from..of_kind.len())].0
    }

    fn statements(&mut self, count: usize, depth: usize) {
        for _ in 0..count {
            match self.rng.u32(0..20) {
                0 | 1 if depth < 2 => self.branch(depth),
                2 | 3 if depth < 2 => self.repeat(depth),
                4..=6 => self.call(),
                7 => self.import(),
                8 => self.round(),
                9 | 10 => self.stack(),
                11 | 12 => self.variable(),
                13 => self.vector(),
                14 => self.convert(),
                15 => self.copy(),
                _ => self.arithmetic(),
            }
        }
    }

    fn arithmetic(&mut self) {
        let kind = one_of(self.rng, &TYPES);
        let (a, b) = (self.pick(kind), self.pick(kind));
        if kind.is_float() {
            let operators = ["fadd", "fsub", "fmul", "fdiv", "fmin", "fmax", "fcopysign"];
            let operator = one_of(self.rng, &operators);
            return self.keep(&format!("{operator} v{a}, v{b}"), kind);
        }
        let name = kind.name();
        match self.rng.u32(0..6) {
            0 => {
                let one = self.line(&format!("iconst.{name} 1"));
                let divisor = self.line(&format!("bor v{b}, v{one}"));
                let operator = one_of(self.rng, &["udiv", "urem"]);
                self.keep(&format!("{operator} v{a}, v{divisor}"), kind);
            }
            1 => {
                let condition = one_of(self.rng, &["slt", "ult", "eq", "sge"]);
                let is = self.line(&format!("icmp {condition} v{a}, v{b}"));
                self.keep(&format!("select v{is}, v{a}, v{b}"), kind);
            }
            2 => {
                let operator =
                    one_of(self.rng, &["clz", "ctz", "popcnt", "bitrev", "ineg", "bnot"]);
                self.keep(&format!("{operator}.{name} v{a}"), kind);
            }
            3 => {
                let operator = one_of(self.rng, &["ishl", "ushr", "sshr", "rotl", "rotr"]);
                self.keep(&format!("{operator} v{a}, v{b}"), kind);
            }
            _ => {
                let operators = ["iadd", "isub", "imul", "band", "bor", "bxor", "smin", "umax"];
                let operator = one_of(self.rng, &operators);
                self.keep(&format!("{operator} v{a}, v{b}"), kind);
            }
        }
    }

    fn convert(&mut self) {
        let (long, double) = (self.pick(Type::I64), self.pick(Type::F64));
        match self.rng.u32(0..6) {
            0 => self.keep(&format!("ireduce.i32 v{long}"), Type::I32),
            1 => self.keep(&format!("fcvt_to_sint_sat.i64 v{double}"), Type::I64),
            2 => self.keep(&format!("fcvt_from_sint.f64 v{long}"), Type::F64),
            3 => self.keep(&format!("fdemote.f32 v{double}"), Type::F32),
            4 => {
                let float = self.pick(Type::F32);
                self.keep(&format!("fpromote.f64 v{float}"), Type::F64);
            }
            _ => {
                let int = self.pick(Type::I32);
                self.keep(&format!("sextend.i64 v{int}"), Type::I64);
            }
        }
    }

    /// Library calls, where the processor lacks the instruction.
    fn round(&mut self) {
        let kind = if self.rng.bool() { Type::F32 } else { Type::F64 };
        let value = self.pick(kind);
        if self.rng.u32(0..4) == 0 {
            let (a, b) = (self.pick(kind), self.pick(kind));
            return self.keep(&format!("fma v{value}, v{a}, v{b}"), kind);
        }
        let operator = one_of(self.rng, &["ceil", "floor", "trunc", "nearest"]);
        self.keep(&format!("{operator}.{} v{value}", kind.name()), kind);
    }

    fn vector(&mut self) {
        let (a, b) = (self.pick(Type::I32), self.pick(Type::I32));
        let (x, y) =
            (self.line(&format!("splat.i32x4 v{a}")), self.line(&format!("splat.i32x4 v{b}")));
        let lanes = self.line("vconst.i32x4 [1 2 3 4]");
        let sum = self.line(&format!("iadd v{x}, v{lanes}"));
        let sum = self.line(&format!("imul v{sum}, v{y}"));
        let lane = self.rng.u32(0..4);
        self.keep(&format!("extractlane v{sum}, {lane}"), Type::I32);
    }

    fn stack(&mut self) {
        let kind = one_of(self.rng, &TYPES);
        let offset = self.rng.usize(0..=32 - kind.bytes());
        let slot = self.line(&format!("stack_addr.i64 ss0+{offset}"));
        if self.rng.bool() {
            let value = self.pick(kind);
            writeln!(self.text, "    store v{value}, v{slot}").unwrap();
        } else {
            self.keep(&format!("load.{} v{slot}", kind.name()), kind);
        }
    }

    fn variable(&mut self) {
        let kind = one_of(self.rng, &TYPES);
        let number = self.rng.u32(0..VARIABLES);
        let address = self.symbol(number);
        let offset = self.rng.usize(0..=VARIABLE_BYTES - kind.bytes());
        if self.rng.bool() {
            let value = self.pick(kind);
            writeln!(self.text, "    store v{value}, v{address}+{offset}").unwrap();
        } else {
            self.keep(&format!("load.{} v{address}+{offset}", kind.name()), kind);
        }
    }

    /// Copies half of a variable onto another one with a library call.
    fn copy(&mut self) {
        let to = self.rng.u32(0..VARIABLES);
        let from = (to + 1) % VARIABLES;
        let (to, from) = (self.symbol(to), self.symbol(from));
        let function = self.external("%Memcpy", "(i64, i64, i64) -> i64 system_v");
        let count = self.line("iconst.i64 32");
        self.line(&format!("call fn{function}(v{to}, v{from}, v{count})"));
    }

    fn symbol(&mut self, number: u32) -> u32 {
        let line = format!("    gv{number} = symbol colocated u1:{number}\n");
        if !self.head.contains(&line) {
            self.head.push_str(&line);
        }
        self.line(&format!("symbol_value.i64 gv{number}"))
    }

    fn external(&mut self, name: &str, signature: &str) -> usize {
        let known = self.externals.iter().position(|one| one.contains(&format!("= {name}(")));
        known.unwrap_or_else(|| {
            let number = self.externals.len();
            self.externals.push(format!("    fn{number} = {name}{signature}\n"));
            number
        })
    }

    fn call(&mut self) {
        if self.callees.is_empty() || self.calls_left == 0 {
            return;
        }
        self.calls_left -= 1;
        let callee = one_of(self.rng, &self.callees);
        let shape = &self.shapes[callee];
        let (params, result, signature) = (shape.params.clone(), shape.result, shape.text());
        let arguments: Vec<_> =
            params.iter().map(|kind| format!("v{}", self.pick(*kind))).collect();
        let arguments = arguments.join(", ");
        // The functions of the last level are in a table.
        if *signature == *HOST && self.rng.bool() {
            let table = self.symbol(TABLE);
            let line = format!("    sig99 = {HOST}\n");
            if !self.head.contains(&line) {
                self.head.push_str(&line);
            }
            let offset = self.rng.u32(0..4) * 8;
            let address = self.line(&format!("load.i64 v{table}+{offset}"));
            return self.keep(&format!("call_indirect sig99, v{address}({arguments})"), result);
        }
        let is_near = if self.rng.bool() { "colocated " } else { "" };
        let function = self.external(&format!("{is_near}u0:{callee}"), &signature);
        self.keep(&format!("call fn{function}({arguments})"), result);
    }

    fn import(&mut self) {
        let number = self.rng.usize(0..IMPORTS.len());
        let (name, signature) = (self.shapes.len() + number, IMPORTS[number].1);
        let function = self.external(&format!("u0:{name}"), signature);
        let double = self.pick(Type::F64);
        match number {
            0 => {
                let long = self.pick(Type::I64);
                self.keep(&format!("call fn{function}(v{long})"), Type::I64);
            }
            1 => self.keep(&format!("call fn{function}(v{double})"), Type::F64),
            2 => {
                let other = self.pick(Type::F64);
                self.keep(&format!("call fn{function}(v{double}, v{other})"), Type::F64);
            }
            _ => {
                let int = self.pick(Type::I32);
                self.keep(&format!("call fn{function}(v{double}, v{int})"), Type::F64);
            }
        }
    }

    /// Two ways, which meet with a value.
    fn branch(&mut self, depth: usize) {
        let kind = one_of(self.rng, &TYPES);
        let (a, b) = (self.pick(Type::I64), self.pick(Type::I64));
        let is = self.line(&format!("icmp sgt v{a}, v{b}"));
        let (then, other, end) = (self.block(), self.block(), self.block());
        writeln!(self.text, "    brif v{is}, block{then}, block{other}").unwrap();
        for way in [then, other] {
            let scope = self.values.len();
            writeln!(self.text, "\nblock{way}:").unwrap();
            self.statements(4, depth + 1);
            let value = self.pick(kind);
            writeln!(self.text, "    jump block{end}(v{value})").unwrap();
            self.values.truncate(scope);
        }
        let met = self.fresh();
        writeln!(self.text, "\nblock{end}(v{met}: {}):", kind.name()).unwrap();
        self.values.push((met, kind));
    }

    /// A loop of up to 8 turns, which hands on a value.
    fn repeat(&mut self, depth: usize) {
        let kind = one_of(self.rng, &TYPES);
        let turns = self.rng.u32(1..=8);
        let (zero, start) = (self.line("iconst.i32 0"), self.pick(kind));
        let (body, end) = (self.block(), self.block());
        writeln!(self.text, "    jump block{body}(v{zero}, v{start})").unwrap();
        let (counter, carried) = (self.fresh(), self.fresh());
        writeln!(self.text, "\nblock{body}(v{counter}: i32, v{carried}: {}):", kind.name())
            .unwrap();
        let scope = self.values.len();
        self.values.push((carried, kind));
        self.statements(4, depth + 1);
        let next = self.pick(kind);
        let (one, turns) = (self.line("iconst.i32 1"), self.line(&format!("iconst.i32 {turns}")));
        let count = self.line(&format!("iadd v{counter}, v{one}"));
        let goes_on = self.line(&format!("icmp ult v{count}, v{turns}"));
        writeln!(
            self.text,
            "    brif v{goes_on}, block{body}(v{count}, v{next}), block{end}(v{next})"
        )
        .unwrap();
        self.values.truncate(scope);
        let result = self.fresh();
        writeln!(self.text, "\nblock{end}(v{result}: {}):", kind.name()).unwrap();
        self.values.push((result, kind));
    }
}
