//! The code by which x86-64 compilers reach thread-locals, and what it becomes.
//!
//! Every thread has its own copy of a link's TLS block. The distance of the copy from the thread pointer, which `%fs:0` holds,
//! is the same in all threads: the *offset*, a negative number. Compilers do not always know it, so they emit one of five
//! kinds of code:
//!
//! - *general dynamic*: a call of `__tls_get_addr` for each variable,
//! - *local dynamic*: one such call for the TLS block, then distances inside it (`DTPOFF`),
//! - *descriptors*: a call through a descriptor that returns the offset,
//! - *initial exec*: a load of the offset from the GOT (`GOTTPOFF`),
//! - *local exec*: the offset itself (`TPOFF`).
//!
//! Most links know all offsets, so the linker rewrites the first four as the fifth. The processor supplement fixes the
//! instructions byte by byte to make that possible. In this table `x` is the offset:
//!
//! | code | becomes |
//! |---|---|
//! | `lea x@tlsgd(%rip),%rdi; call __tls_get_addr` | `mov %fs:0,%rax; lea x(%rax),%rax` |
//! | `lea x@tlsld(%rip),%rdi; call __tls_get_addr` | `mov %fs:0,%rax` |
//! | `lea x@tlsdesc(%rip),%rax`, `call *x@tlscall(%rax)` | `mov $x,%rax`, `xchg %ax,%ax` |
//! | `mov x@gottpoff(%rip),%reg` | `mov $x,%reg` |
//! | `add x@gottpoff(%rip),%reg` | `lea x(%reg),%reg` (`add $x,%reg` for `%rsp` and `%r12`) |
//!
//! Prefixes without a meaning make both sides equally long. The second row leaves no room to add the block's offset to the
//! thread pointer. So wherever code uses a distance inside the TLS block, that distance becomes an offset from the thread
//! pointer as well. `_TLS_MODULE_BASE_`, the block's name among descriptors, has the offset 0.
//!
//! *Dynamic* thread-locals have no constant offset. They have a descriptor in the GOT (see `place::got_plt`):
//!
//! - General dynamic and local dynamic code calls a stub of the executor's function with the last two words of the descriptor.
//! - Code with descriptors stays unchanged.
//! - Initial exec and local exec code cannot be linked.
//! - Distances inside the TLS block stay distances.
//!
//! In this table `d` is the descriptor and `f` the stub:
//!
//! | code | becomes |
//! |---|---|
//! | `lea x@tlsgd(%rip),%rdi; call __tls_get_addr` | `lea d+8(%rip),%rdi; call f` |
//! | `lea x@tlsld(%rip),%rdi; call __tls_get_addr` | the same |
//! | `lea x@tlsdesc(%rip),%rax`, `call *x@tlscall(%rax)` | `lea d(%rip),%rax`, `call *(%rax)` |
//!
//! Invariant: code is rewritten as a whole or not at all, and never grows.

use super::edge::{Edge, EdgeKind, Formula, Range, ThreadModel};
use super::facts::{GOT_ENTRY_BYTES, store};

/// A sequence of code that ends with a call of `__tls_get_addr`.
struct Form {
    model: ThreadModel,
    /// The first instruction, which ends with the relocated field.
    load: &'static [u16],
    /// The bytes that follow.
    call: &'static [u16],
    /// The code that replaces both, equally long.
    to: &'static [u8],
    /// Where the offset goes in `to`.
    offset: Option<usize>,
    /// The code that replaces the call when the thread-local is dynamic. It has the length of the call.
    dynamic_call: &'static [u8],
}

static FORMS: [Form; 10] = [
    general(PADDED_LOAD, &[0x66, 0x66, 0x48, 0xe8, ANY, ANY, ANY, ANY], GENERAL_SMALL),
    general(PADDED_LOAD, &[0x66, 0x48, 0x67, 0xe8, ANY, ANY, ANY, ANY], GENERAL_SMALL),
    general(PADDED_LOAD, &[0x66, 0x48, 0xff, 0x15, ANY, ANY, ANY, ANY], GENERAL_SMALL),
    general(LOAD, FAR_CALL_BY_RBX, GENERAL_LARGE),
    general(LOAD, FAR_CALL_BY_R15, GENERAL_LARGE),
    local(LOAD, &[0xe8, ANY, ANY, ANY, ANY], LOCAL_SMALL),
    local(LOAD, &[0x67, 0xe8, ANY, ANY, ANY, ANY], LOCAL_MIDDLE),
    local(LOAD, &[0xff, 0x15, ANY, ANY, ANY, ANY], LOCAL_MIDDLE),
    local(LOAD, FAR_CALL_BY_RBX, LOCAL_LARGE),
    local(LOAD, FAR_CALL_BY_R15, LOCAL_LARGE),
];

/// Any byte: part of a field.
const ANY: u16 = 0x100;

/// `lea 0(%rip),%rdi`
const LOAD: &[u16] = &[0x48, 0x8d, 0x3d, ANY, ANY, ANY, ANY];

/// `LOAD` with a prefix.
const PADDED_LOAD: &[u16] = &[0x66, 0x48, 0x8d, 0x3d, ANY, ANY, ANY, ANY];

/// `movabs $0,%rax; add %rbx,%rax; call *%rax`: the large code model, with the GOT in `%rbx`.
const FAR_CALL_BY_RBX: &[u16] =
    &[0x48, 0xb8, ANY, ANY, ANY, ANY, ANY, ANY, ANY, ANY, 0x48, 0x01, 0xd8, 0xff, 0xd0];

/// `FAR_CALL_BY_RBX` with the GOT in `%r15`.
const FAR_CALL_BY_R15: &[u16] =
    &[0x48, 0xb8, ANY, ANY, ANY, ANY, ANY, ANY, ANY, ANY, 0x4c, 0x01, 0xf8, 0xff, 0xd0];

/// `mov %fs:0,%rax; lea 0(%rax),%rax`
const GENERAL_SMALL: &[u8] =
    &[0x64, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0, 0x48, 0x8d, 0x80, 0, 0, 0, 0];

/// `GENERAL_SMALL` and a no-operation of six bytes.
const GENERAL_LARGE: &[u8] = &[
    0x64, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0, 0x48, 0x8d, 0x80, 0, 0, 0, 0, 0x66, 0x0f, 0x1f, 0x44,
    0, 0,
];

/// Where the offset goes in `GENERAL_SMALL` and in `GENERAL_LARGE`.
const GENERAL_OFFSET: usize = 12;

/// `mov %fs:0,%rax` with three prefixes.
const LOCAL_SMALL: &[u8] = &[0x66, 0x66, 0x66, 0x64, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0];

/// `mov %fs:0,%rax` with four prefixes.
const LOCAL_MIDDLE: &[u8] = &[0x66, 0x66, 0x66, 0x66, 0x64, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0];

/// A no-operation of 13 bytes and `mov %fs:0,%rax`.
const LOCAL_LARGE: &[u8] = &[
    0x66, 0x66, 0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0, 0x64, 0x48, 0x8b, 0x04, 0x25, 0,
    0, 0, 0,
];

/// `call 0`, with the length of the calls that it replaces. A no-operation fills up the longest.
const DYNAMIC_CALLS: [&[u8]; 4] = [
    &[0xe8, 0, 0, 0, 0],
    &[0x67, 0xe8, 0, 0, 0, 0],
    &[0x66, 0x66, 0x48, 0xe8, 0, 0, 0, 0],
    &[0xe8, 0, 0, 0, 0, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0],
];

/// The kind of a load of the offset by an instruction that cannot be rewritten: only `mov` and `add` can.
static INITIAL_ENTRY: EdgeKind =
    variant(22, "R_X86_64_GOTTPOFF", ThreadModel::InitialEntry, 4, Range::Signed);

/// The kinds of distances inside the TLS block when they are in code, by the size of their field.
static DISTANCES_IN_CODE: [EdgeKind; 2] = [
    variant(21, "R_X86_64_DTPOFF32", ThreadModel::LocalInCode, 4, Range::Signed),
    variant(17, "R_X86_64_DTPOFF64", ThreadModel::LocalInCode, 8, Range::Any),
];

/// The size of the field in a load.
const FIELD_BYTES: usize = 4;

/// The addend of everything that is relative to the end of its own field.
const AT_END_OF_FIELD: i64 = -4;

/// Checks the relocations of one section that refer to thread-locals against the code around them. Relocations of calls of
/// `__tls_get_addr` are dropped, because the calls are rewritten with the loads in front of them. `code` is empty for a
/// section that is not executable.
///
/// # Errors
/// The code around a relocation is not what the processor supplement prescribes for it; says what is wrong.
pub(crate) fn accept(
    code: &[u8],
    edges: Vec<Edge>,
    is_tls_get_addr: impl Fn(&Edge) -> bool,
) -> Result<Vec<Edge>, (Edge, &'static str)> {
    let mut accepted = Vec::with_capacity(edges.len());
    let mut edges = edges.into_iter();
    while let Some(mut edge) = edges.next() {
        match edge.kind.formula {
            Formula::Thread(model @ (ThreadModel::General | ThreadModel::LocalBase)) => {
                let (form, _) = form_of(code, &edge, model).ok_or((edge, UNKNOWN_CODE))?;
                let call = edges.next().filter(|call| form.is_call(&edge, call));
                call.filter(|call| is_tls_get_addr(call)).ok_or((edge, NO_CALL))?;
            }
            Formula::Thread(model @ ThreadModel::Initial)
                if instruction(code, &edge, model).is_none() =>
            {
                edge.kind = &INITIAL_ENTRY;
            }
            Formula::Thread(model @ (ThreadModel::Descriptor | ThreadModel::DescriptorCall)) => {
                instruction(code, &edge, model).ok_or((edge, UNKNOWN_CODE))?;
            }
            Formula::Thread(ThreadModel::LocalOffset) if !code.is_empty() => {
                edge.kind = &DISTANCES_IN_CODE[usize::from(edge.kind.field_bytes == 8)];
            }
            _ => {}
        }
        accepted.push(edge);
    }
    Ok(accepted)
}

/// Rewrites the code around an edge that [`accept`] accepted. `offset` is the distance of the symbol from the thread pointer, and fits
/// 32 bits. Returns whether the code was rewritten.
pub(crate) fn rewrite(code: &mut [u8], edge: &Edge, model: ThreadModel, offset: u64) -> bool {
    if let Some((form, start)) = form_of(code, edge, model) {
        let code = &mut code[start..start + form.to.len()];
        code.copy_from_slice(form.to);
        if let Some(at) = form.offset {
            store(&mut code[at..at + 4], offset);
        }
        return true;
    }
    let Some((start, mut bytes)) = instruction(code, edge, model) else { return false };
    if model != ThreadModel::DescriptorCall {
        store(&mut bytes[3..7], offset);
    }
    let bytes = &bytes[..if model == ThreadModel::DescriptorCall { 2 } else { 7 }];
    code[start..start + bytes.len()].copy_from_slice(bytes);
    true
}

/// Makes the code around an edge that [`accept`] accepted find a dynamic thread-local. `place` is the address of the edge's
/// field. `descriptor` is the address of the thread-local's descriptor, and `stub` the address of the stub of the executor's
/// function. Returns whether all distances fit.
pub(crate) fn make_dynamic(
    code: &mut [u8],
    edge: &Edge,
    model: ThreadModel,
    place: u64,
    descriptor: u64,
    stub: u64,
) -> bool {
    let end_of_field = place.wrapping_add(FIELD_BYTES as u64);
    let field = edge.offset as usize;
    if let Some((form, start)) = form_of(code, edge, model) {
        let call_start = start + form.load.len();
        let opcode = form.dynamic_call.iter().position(|byte| *byte == 0xe8).unwrap_or(0);
        let call_field = call_start + opcode + 1;
        let end_of_call = place.wrapping_add((call_field + FIELD_BYTES - field) as u64);
        let arguments = descriptor.wrapping_add(GOT_ENTRY_BYTES).wrapping_sub(end_of_field);
        let distance = stub.wrapping_sub(end_of_call);
        if !Range::Signed.holds(arguments, 4) || !Range::Signed.holds(distance, 4) {
            return false;
        }
        code[call_start..call_start + form.dynamic_call.len()].copy_from_slice(form.dynamic_call);
        store(&mut code[field..field + FIELD_BYTES], arguments);
        store(&mut code[call_field..call_field + FIELD_BYTES], distance);
        return true;
    }
    let distance = descriptor.wrapping_sub(end_of_field);
    if instruction(code, edge, model).is_none() || !Range::Signed.holds(distance, 4) {
        return false;
    }
    store(&mut code[field..field + FIELD_BYTES], distance);
    true
}

const UNKNOWN_CODE: &str = "the instructions around it are not those that the processor supplement \
     prescribes, so that they cannot be rewritten; compile with -ftls-model=initial-exec";
const NO_CALL: &str = "no call of `__tls_get_addr` follows, so that the code cannot be rewritten; compile \
     with -ftls-model=initial-exec";

/// The sequence around an edge, and where it starts.
fn form_of(code: &[u8], edge: &Edge, model: ThreadModel) -> Option<(&'static Form, usize)> {
    let field = usize::try_from(edge.offset).ok()?;
    FORMS.iter().find_map(|form| {
        let start = (field + FIELD_BYTES).checked_sub(form.load.len())?;
        let bytes = code.get(start..)?.get(..form.to.len())?;
        let same = |(byte, wanted): (&u8, &u16)| *wanted == ANY || *wanted == u16::from(*byte);
        let fits = form.model == model && edge.addend == AT_END_OF_FIELD;
        let wanted = form.load.iter().chain(form.call);
        (fits && bytes.iter().zip(wanted).all(same)).then_some((form, start))
    })
}

impl Form {
    /// True when `call` is the relocation of the call in this sequence, and `edge` the relocation of the load.
    fn is_call(&self, edge: &Edge, call: &Edge) -> bool {
        let opcode = self.call.iter().take_while(|byte| **byte != ANY);
        let is_of_kind = match opcode.clone().last() {
            Some(0xe8) => matches!(call.kind.formula, Formula::Branch | Formula::Delta),
            Some(0x15) => matches!(call.kind.formula, Formula::GotLoad | Formula::GotDelta),
            _ => call.kind.formula == Formula::FromGot,
        };
        let distance = call.offset.checked_sub(edge.offset);
        is_of_kind && distance.is_some_and(|far| far as usize == FIELD_BYTES + opcode.count())
    }
}

/// Where the instruction around an edge starts, and what replaces it: seven bytes, the last four of which are for the offset.
/// A call through a descriptor has two bytes only.
fn instruction(code: &[u8], edge: &Edge, model: ThreadModel) -> Option<(usize, [u8; 7])> {
    let field = usize::try_from(edge.offset).ok()?;
    if model == ThreadModel::DescriptorCall {
        let is_call = code.get(field..)?.starts_with(&[0xff, 0x10]);
        return is_call.then_some((field, [0x66, 0x90, 0, 0, 0, 0, 0]));
    }
    let start = field.checked_sub(3)?;
    let [prefix, opcode, operands, ..] = *code.get(start..)?.first_chunk::<7>()?;
    let is_wide = matches!(prefix, 0x48 | 0x4c);
    if !is_wide || operands & 0xc7 != 0x05 || edge.addend != AT_END_OF_FIELD {
        return None;
    }
    let (register, is_upper) = ((operands >> 3) & 7, prefix == 0x4c);
    // The register becomes another operand, whose upper bit is another bit of the prefix.
    let prefix = if is_upper { 0x49 } else { 0x48 };
    let bytes = match (model, opcode, register) {
        (ThreadModel::Descriptor, 0x8d, _) | (ThreadModel::Initial, 0x8b, _) => {
            [prefix, 0xc7, 0xc0 | register]
        }
        (ThreadModel::Initial, 0x03, 4) => [prefix, 0x81, 0xc4],
        (ThreadModel::Initial, 0x03, _) => {
            let prefix = if is_upper { 0x4d } else { 0x48 };
            [prefix, 0x8d, 0x80 | register << 3 | register]
        }
        _ => return None,
    };
    Some((start, [bytes[0], bytes[1], bytes[2], 0, 0, 0, 0]))
}

const fn general(load: &'static [u16], call: &'static [u16], to: &'static [u8]) -> Form {
    assert!(load.len() + call.len() == to.len());
    let (model, offset) = (ThreadModel::General, Some(GENERAL_OFFSET));
    Form { model, load, call, to, offset, dynamic_call: dynamic_call(call.len()) }
}

const fn local(load: &'static [u16], call: &'static [u16], to: &'static [u8]) -> Form {
    assert!(load.len() + call.len() == to.len());
    let (model, offset) = (ThreadModel::LocalBase, None);
    Form { model, load, call, to, offset, dynamic_call: dynamic_call(call.len()) }
}

/// The dynamic call with this length.
const fn dynamic_call(bytes: usize) -> &'static [u8] {
    let mut at = 0;
    while DYNAMIC_CALLS[at].len() != bytes {
        at += 1;
    }
    DYNAMIC_CALLS[at]
}

const fn variant(
    number: u32,
    name: &'static str,
    model: ThreadModel,
    field_bytes: u8,
    range: Range,
) -> EdgeKind {
    EdgeKind { number, name, formula: Formula::Thread(model), field_bytes, range, operand: None }
}
