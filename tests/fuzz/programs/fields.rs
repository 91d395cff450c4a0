//! Random fields, and the instructions that they belong to.
//!
//! Invariant: the fields of a section do not overlap, and nearly all of them can hold what they refer to.

use super::aarch64_fields;
use super::elf_file::{ALLOC, EXECUTE, ElfFile, NOBITS, Relocation, Symbol};
use super::forms::Needs::{Address, Distance, Exact, Here, Nothing, Number, Own, Tiny};
use super::forms::{Form, Forms, Needs};
use farcall_base::random::Random;
use farcall_link::Processor;
use farcall_link::internals::{Formula, X86_64_KINDS as KINDS};

/// A symbol that fields can refer to.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Target {
    /// An index into the symbols of the file.
    pub(super) symbol: usize,
    pub(super) reach: Reach,
    /// Its section, if only this object can refer to it.
    pub(super) section: Option<usize>,
    /// The section with which it may be dropped.
    pub(super) owner: Option<usize>,
    pub(super) is_thread: bool,
    /// True when an object of the program defines it.
    pub(super) is_own: bool,
}

/// The function that code calls for the address of a thread-local.
pub(super) const TLS_GET_ADDR: &str = "__tls_get_addr";

/// The fields that can reach a target.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Reach {
    /// 32-bit distances.
    #[default]
    Near,
    /// 32-bit distances and 32-bit addresses.
    Low,
    /// 32-bit addresses only: it is a small number.
    Number,
    /// Fields of 64 bits only.
    Far,
}

/// The fields of a processor.
pub(super) fn forms(processor: Processor) -> &'static Forms {
    match processor {
        Processor::X86_64 => &FORMS,
        _ => &aarch64_fields::FORMS,
    }
}

/// The fields of x86-64.
static FORMS: Forms = Forms {
    code: &CODE,
    data: data_form,
    pointer: form(&[0; 8], 0, 1, 0, Nothing),
    thread_code: &THREAD_CODE,
    thread_data: &THREAD_DATA,
    pc_relative: 2,
    unit: 1,
    step: 1,
};

const fn form(bytes: &'static [u8], field: u64, kind: u32, addend: i64, needs: Needs) -> Form {
    Form { bytes, field, kind, addend, needs, more: None, call: None }
}

const fn form_with_call(bytes: &'static [u8], field: u64, kind: u32, at: u64, call: u32) -> Form {
    Form { call: Some((at, call)), ..form(bytes, field, kind, -4, Nothing) }
}

/// Instructions.
static CODE: [Form; 22] = [
    form(&[0xe8, 0, 0, 0, 0], 1, 4, -4, Nothing),
    form(&[0xe9, 0, 0, 0, 0], 1, 4, -4, Nothing),
    form(&[0x0f, 0x84, 0, 0, 0, 0], 2, 4, -4, Nothing),
    form(&[0xe8, 0, 0, 0, 0], 1, 2, -4, Nothing),
    form(&[0xf2, 0xe8, 0, 0, 0, 0], 2, 40, -4, Nothing),
    form(&[0x48, 0x8d, 0x05, 0, 0, 0, 0], 3, 2, -4, Distance),
    form(&[0x48, 0x8b, 0x0d, 0, 0, 0, 0], 3, 42, -4, Nothing),
    form(&[0x4c, 0x8b, 0x3d, 0, 0, 0, 0], 3, 42, -4, Nothing),
    form(&[0x8b, 0x05, 0, 0, 0, 0], 2, 41, -4, Nothing),
    form(&[0xff, 0x15, 0, 0, 0, 0], 2, 41, -4, Nothing),
    form(&[0xff, 0x25, 0, 0, 0, 0], 2, 41, -4, Nothing),
    // The linker does not rewrite a call of this kind.
    form(&[0xff, 0x15, 0, 0, 0, 0], 2, 42, -4, Nothing),
    form(&[0x48, 0x3b, 0x05, 0, 0, 0, 0], 3, 42, -4, Nothing),
    form(&[0xd5, 0x48, 0x8b, 0x05, 0, 0, 0, 0], 4, 43, -4, Nothing),
    form(&[0x48, 0x8b, 0x05, 0, 0, 0, 0], 3, 9, -4, Nothing),
    // cmpl with an immediate operand behind the field.
    form(&[0x81, 0x3d, 0, 0, 0, 0, 1, 2, 3, 4], 2, 41, -8, Nothing),
    form(&[0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0], 2, 1, 0, Nothing),
    form(&[0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0], 2, 25, 0, Nothing),
    form(&[0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0], 2, 27, 0, Nothing),
    form(&[0x49, 0xbb, 0, 0, 0, 0, 0, 0, 0, 0], 2, 31, 0, Nothing),
    form(&[0x49, 0xbb, 0, 0, 0, 0, 0, 0, 0, 0], 2, 29, 2, Nothing),
    form(&[0x48, 0xc7, 0xc0, 0, 0, 0, 0], 3, 11, 0, Address),
];

/// Data with a field of any kind that objects have, but for thread-locals.
fn data_form(random: &mut Random) -> Form {
    const ZEROES: &[u8] = &[0; 8];
    loop {
        let kind = &KINDS[random.index(KINDS.len())];
        let needs = match (kind.formula, kind.field_bytes) {
            (Formula::Thread(_) | Formula::Dynamic, _) => continue,
            // Data that looks like an instruction.
            (Formula::GotLoad, _) => {
                return form(&[0x8b, 0x05, 0, 0, 0, 0], 2, kind.number, -4, Nothing);
            }
            (Formula::Absolute, 4) => Address,
            (Formula::Absolute, ..4) => Number,
            (Formula::Delta, 4) => Distance,
            (Formula::Delta, ..4) => Here,
            _ => Nothing,
        };
        return form(&ZEROES[..usize::from(kind.field_bytes)], 0, kind.number, 0, needs);
    }
}

/// Instructions that reach thread-locals.
#[rustfmt::skip]
static THREAD_CODE: [Form; 18] = [
    form_with_call(&[0x66, 0x48, 0x8d, 0x3d, 0, 0, 0, 0, 0x66, 0x66, 0x48, 0xe8, 0, 0, 0, 0], 4, 19, 12, 4),
    form_with_call(&[0x66, 0x48, 0x8d, 0x3d, 0, 0, 0, 0, 0x66, 0x48, 0xff, 0x15, 0, 0, 0, 0], 4, 19, 12, 41),
    form_with_call(&[0x48, 0x8d, 0x3d, 0, 0, 0, 0, 0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0x48, 1, 0xd8, 0xff, 0xd0], 3, 19, 9, 31),
    form_with_call(&[0x48, 0x8d, 0x3d, 0, 0, 0, 0, 0xe8, 0, 0, 0, 0], 3, 20, 8, 4),
    form_with_call(&[0x48, 0x8d, 0x3d, 0, 0, 0, 0, 0xff, 0x15, 0, 0, 0, 0], 3, 20, 9, 41),
    form_with_call(&[0x48, 0x8d, 0x3d, 0, 0, 0, 0, 0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0x4c, 1, 0xf8, 0xff, 0xd0], 3, 20, 9, 31),
    form(&[0x48, 0x8d, 0x05, 0, 0, 0, 0], 3, 34, -4, Nothing),
    form(&[0xff, 0x10], 0, 35, 0, Nothing),
    form(&[0x48, 0x8b, 0x05, 0, 0, 0, 0], 3, 22, -4, Nothing),
    form(&[0x4c, 0x8b, 0x3d, 0, 0, 0, 0], 3, 22, -4, Nothing),
    form(&[0x48, 0x03, 0x0d, 0, 0, 0, 0], 3, 22, -4, Nothing),
    form(&[0x4c, 0x03, 0x25, 0, 0, 0, 0], 3, 22, -4, Nothing),
    // The linker does not rewrite `cmp`.
    form(&[0x48, 0x3b, 0x05, 0, 0, 0, 0], 3, 22, -4, Nothing),
    form(&[0x64, 0x8b, 0x04, 0x25, 0, 0, 0, 0], 4, 23, 0, Nothing),
    form(&[0x48, 0x8d, 0x80, 0, 0, 0, 0], 3, 21, 0, Nothing),
    form(&[0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0], 2, 18, 0, Nothing),
    form(&[0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0], 2, 17, 0, Nothing),
    form(&[0x48, 0xc7, 0xc0, 0, 0, 0, 0], 3, 23, 0, Nothing),
];

/// Data that refers to thread-locals.
static THREAD_DATA: [Form; 5] = [
    form(&[0; 8], 0, 17, 0, Nothing),
    form(&[0; 8], 0, 18, 0, Nothing),
    form(&[0; 4], 0, 21, 0, Nothing),
    form(&[0; 4], 0, 23, 0, Nothing),
    form(&[0; 8], 0, 33, 0, Nothing),
];

/// A form for a thread-local. A dynamic one has no constant offset, and one of another link no distance in the TLS block.
fn thread_form(random: &mut Random, forms: &[Form], target: &Target, is_dynamic: bool) -> Form {
    loop {
        let form = random.pick(forms);
        let is_possible = match form.kind {
            18 | 22 | 23 | 541..=559 => !is_dynamic,
            17 | 21 | 528..=538 => !is_dynamic || target.is_own,
            _ => true,
        };
        if is_possible {
            return form;
        }
    }
}

/// Fills a section with fields that refer to targets. `is_dynamic` says whether thread-locals may be dynamic.
pub(super) fn add_fields(
    random: &mut Random,
    file: &mut ElfFile,
    index: usize,
    targets: &[Target],
    is_dynamic: bool,
) {
    let forms = forms(file.processor);
    let section = &file.sections[index];
    let is_array = matches!(section.kind, 14..=16)
        || ["init_array", "fini_array", ".ctors", ".dtors"]
            .iter()
            .any(|n| section.name.contains(n));
    let is_code = section.flags & EXECUTE != 0;
    let is_zero_fill = section.kind == NOBITS;
    if section.flags & ALLOC == 0 || is_zero_fill && !random.one_in(6) {
        return;
    }
    let is_call = |symbol: &Symbol| symbol.name == TLS_GET_ADDR;
    let tls_get_addr = file.symbols.iter().position(is_call).unwrap_or(0);
    let len = if is_zero_fill {
        usize::try_from(section.zero_bytes).unwrap_or(0)
    } else {
        section.content.len()
    };
    let mut at = if is_array { 0 } else { random.index(8) };
    loop {
        at = at.next_multiple_of(forms.step);
        if at >= len {
            break;
        }
        let target = random.pick(targets);
        let form = match (target.is_thread, is_code && !random.one_in(8)) {
            _ if is_array => forms.pointer,
            (false, true) => random.pick(forms.code),
            (false, false) => (forms.data)(random),
            (true, _) if is_code => thread_form(random, forms.thread_code, &target, is_dynamic),
            (true, _) if forms.thread_data.is_empty() => {
                at += forms.step;
                continue;
            }
            (true, _) => thread_form(random, forms.thread_data, &target, is_dynamic),
        };
        if at + form.bytes.len() > len {
            return;
        }
        let is_skipped = is_array && (target.is_thread || random.one_in(4));
        if !is_skipped && let Some(addend) = addend(random, file, index, at as u64, &form, &target)
        {
            let section = &mut file.sections[index];
            if !is_zero_fill && !is_array {
                section.content[at..at + form.bytes.len()].copy_from_slice(form.bytes);
            }
            let offset = at as u64 + form.field;
            let (kind, symbol) = (form.kind, target.symbol);
            section.relocations.push(Relocation { offset, kind, symbol, addend });
            if let Some((field, kind)) = form.more {
                let offset = at as u64 + field;
                section.relocations.push(Relocation { offset, kind, symbol, addend });
            }
            if let Some((field, kind)) = form.call {
                let addend = if matches!(kind, 31 | 283) { 0 } else { -4 };
                let offset = at as u64 + field;
                section.relocations.push(Relocation { offset, kind, symbol: tls_get_addr, addend });
            }
            at += form.bytes.len();
        } else if is_array {
            at += 8;
        }
        at += if is_array { 0 } else { random.index(6) };
    }
    let relocations = &file.sections[index].relocations;
    let has_call = relocations.iter().any(|one| matches!(one.kind, 19 | 20 | 513));
    if !has_call && random.one_in(4) {
        // Relocations need not be sorted, except the two of a call of `__tls_get_addr`.
        file.sections[index].relocations.reverse();
    }
}

/// The addend for a form in section `from` that refers to a target; `None` when it cannot refer to it.
fn addend(
    random: &mut Random,
    file: &ElfFile,
    from: usize,
    at: u64,
    form: &Form,
    target: &Target,
) -> Option<i64> {
    let unit = forms(file.processor).unit;
    let small = i64::try_from(random.below(16)).unwrap_or(0) * unit;
    let is_gone_with = |owner: usize| owner == from || file.sections[from].link == Some(owner);
    if let Some(section) = target.section
        && let Some(owner) = target.owner
        && section != from
        && !is_gone_with(owner)
        && !is_same_group(file, owner, from)
    {
        // The target might be dropped although this section stays.
        return None;
    }
    let fits = match form.needs {
        Nothing => true,
        Distance => matches!(target.reach, Reach::Near | Reach::Low),
        Address => matches!(target.reach, Reach::Low | Reach::Number),
        Number => target.reach == Reach::Number && target.section.is_none(),
        Here => {
            let distance = i64::try_from(at).ok()?;
            let is_own_start =
                target.section == Some(from) && file.symbols[target.symbol].value == 0;
            let near = (distance + small - 8).max(0);
            return is_own_start.then_some(if unit > 1 { near & !3 } else { near });
        }
        Exact => return Some(0),
        Tiny => return (target.reach == Reach::Low).then_some(0),
        Own => target.is_own && target.reach != Reach::Number,
    };
    // An instruction that counts from its end means the target itself; other fields take any addend.
    fits.then_some(if form.addend < 0 { form.addend } else { form.addend + small })
}

/// True when two sections belong to one group, by their names.
fn is_same_group(file: &ElfFile, one: usize, other: usize) -> bool {
    let suffix =
        |section: usize| file.sections[section].name.rsplit_once('.').map(|(_, name)| name);
    let in_group = |section: usize| file.sections[section].flags & super::elf_file::IN_GROUP != 0;
    in_group(one) && in_group(other) && suffix(one) == suffix(other)
}
