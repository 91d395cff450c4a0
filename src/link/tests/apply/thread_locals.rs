//! Thread-locals: their TLS block, and the code that reaches them.

use crate::External;
use crate::error::ErrorKind;
use crate::tests::*;

/// Two variables at offsets 0 and 4 of a TLS block of 12 bytes.
const VARIABLES: &str = "
    .section .tdata,\"awT\",@progbits
    .globl first, second
    .p2align 2
    first: .long 11
    second: .long 22, 33
";

/// The offset from the thread pointer of the variable at a distance in the TLS block.
fn offset_of(start: i64) -> u64 {
    (THREAD_OFFSET + start).cast_unsigned()
}

/// Links assembler code at `place` with the two variables, and returns the code.
fn rewritten(code: &str) -> Vec<u8> {
    let source = format!("{VARIABLES}\n.text\n.globl place\nplace: {code}\n.byte 0xf4\n");
    let image = link(&[&compile("code.o", "-xassembler", &source)], &[]).unwrap();
    let bytes = bytes_at(&image, address_of(&image, "place"));
    let end = bytes.iter().rposition(|byte| *byte == 0xf4).unwrap();
    bytes[..end].to_vec()
}

/// Assembles code that needs no linking.
fn assembled(code: &str) -> Vec<u8> {
    let source = format!(".text\n.globl place\nplace: {code}\n.byte 0xf4\n");
    let image = link(&[&compile("plain.o", "-xassembler", &source)], &[]).unwrap();
    let bytes = bytes_at(&image, address_of(&image, "place"));
    let end = bytes.iter().rposition(|byte| *byte == 0xf4).unwrap();
    bytes[..end].to_vec()
}

#[test]
fn every_sequence_becomes_a_constant_offset() {
    let second = THREAD_OFFSET + 4;
    let general = format!("movq %fs:0, %rax\n leaq {second}(%rax), %rax");
    let call = "call __tls_get_addr@PLT";
    let through_got = "call *__tls_get_addr@GOTPCREL(%rip)";
    let far =
        |got| format!("movabsq $__tls_get_addr@PLTOFF, %rax\n addq %{got}, %rax\n call *%rax");
    let lea = ".byte 0x66\n leaq second@tlsgd(%rip), %rdi";
    let cases = [
        (format!("{lea}\n .word 0x6666\n rex64\n {call}"), general.clone()),
        (format!("{lea}\n .byte 0x66\n rex64\n .byte 0x67\n {call}"), general.clone()),
        (format!("{lea}\n .byte 0x66\n rex64\n {through_got}"), general.clone()),
        (
            format!("leaq second@tlsgd(%rip), %rdi\n {}", far("rbx")),
            format!("{general}\n .byte 0x66, 0x0f, 0x1f, 0x44, 0, 0"),
        ),
        (
            format!("leaq second@tlsgd(%rip), %rdi\n {}", far("r15")),
            format!("{general}\n .byte 0x66, 0x0f, 0x1f, 0x44, 0, 0"),
        ),
        (
            format!("leaq second@tlsld(%rip), %rdi\n {call}\n movl second@dtpoff(%rax), %edx"),
            format!(".byte 0x66, 0x66, 0x66\n movq %fs:0, %rax\n movl {second}(%rax), %edx"),
        ),
        (
            format!("leaq second@tlsld(%rip), %rdi\n .byte 0x67\n {call}"),
            ".byte 0x66, 0x66, 0x66, 0x66\n movq %fs:0, %rax".to_owned(),
        ),
        (
            format!("leaq second@tlsld(%rip), %rdi\n {through_got}"),
            ".byte 0x66, 0x66, 0x66, 0x66\n movq %fs:0, %rax".to_owned(),
        ),
        (
            format!("leaq second@tlsld(%rip), %rdi\n {}", far("rbx")),
            ".byte 0x66, 0x66, 0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0\n movq %fs:0, %rax"
                .to_owned(),
        ),
        (
            "leaq second@tlsdesc(%rip), %rax\n call *second@tlscall(%rax)".to_owned(),
            format!("movq ${second}, %rax\n xchg %ax, %ax"),
        ),
        (
            "leaq second@tlsdesc(%rip), %r9\n nop\n call *second@tlscall(%rax)".to_owned(),
            format!("movq ${second}, %r9\n nop\n xchg %ax, %ax"),
        ),
        ("movabsq $second@dtpoff, %rcx".to_owned(), format!("movabsq ${second}, %rcx")),
        ("movl %fs:second@tpoff, %eax".to_owned(), format!("movl %fs:{second}, %eax")),
        ("movabsq $second@tpoff, %rcx".to_owned(), format!("movabsq ${second}, %rcx")),
        ("leaq second@tpoff+8(%rbx), %rcx".to_owned(), format!("leaq {}(%rbx), %rcx", second + 8)),
    ];
    for (from, to) in cases {
        let (from_bytes, to_bytes) = (rewritten(&from), assembled(&to));
        assert_eq!(from_bytes, to_bytes, "{from}\nshould become\n{to}");
    }
}

#[test]
fn loads_of_offsets_become_constants_in_every_register() {
    let registers = [
        "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12",
        "r13", "r14", "r15",
    ];
    for register in registers {
        let load = rewritten(&format!("movq first@gottpoff(%rip), %{register}"));
        assert_eq!(load, assembled(&format!("movq ${THREAD_OFFSET}, %{register}")));
        let add = rewritten(&format!("addq first@gottpoff(%rip), %{register}"));
        let sum = if matches!(register, "rsp" | "r12") {
            format!("addq ${THREAD_OFFSET}, %{register}")
        } else {
            format!("leaq {THREAD_OFFSET}(%{register}), %{register}")
        };
        assert_eq!(add, assembled(&sum), "{sum}");
    }
}

#[test]
fn other_loads_of_offsets_have_a_got_entry_that_holds_it() {
    let others = [
        "cmpq second@gottpoff(%rip), %rax",
        "subq second@gottpoff(%rip), %rax",
        "movl second@gottpoff(%rip), %eax",
        "pushq second@gottpoff(%rip)",
    ];
    for other in others {
        let source = format!("{VARIABLES}\n.text\n.globl place, end\nplace: {other}\nend: ret\n");
        let image = link(&[&compile("other.o", "-xassembler", &source)], &[]).unwrap();
        let end = address_of(&image, "end");
        let entry = end.wrapping_add_signed(i64::from(i32_at(&image, end - 4)));
        assert_eq!(stripe_of(&image, entry), Some(Prot::Constants), "{other}");
        assert_eq!(u64_at(&image, entry), offset_of(4), "{other}");
    }
}

#[test]
fn compilers_write_only_what_can_be_rewritten() {
    let source = "
        extern __thread int elsewhere; static __thread int own = 5, zero; __thread long shared = 4;
        extern __thread char array[100];
        int *address(void) { return &elsewhere; }
        int get(void) { return elsewhere + own + zero; }
        long set(long value) { elsewhere += value; own++; zero--; shared = value; return own * zero; }
        char *at(long i) { return &array[i]; }
        double number(void) { extern __thread double d; return d + own; }
    ";
    let definitions =
        "__thread int elsewhere = 1; __thread char array[100]; __thread double d = 2;";
    let definitions = compile("definitions.o", "-O2", definitions);
    let models = ["", "global-dynamic", "local-dynamic", "initial-exec", "local-exec"];
    let models = models
        .map(|model| if model.is_empty() { String::new() } else { format!("-ftls-model={model}") });
    for flags in [
        "",
        "-fPIC",
        "-fno-pic",
        "-fPIC -fno-plt",
        "-fPIC -mtls-dialect=gnu2",
        "-fPIC -mcmodel=large",
        "-mcmodel=medium",
    ] {
        for level in ["-O0", "-O2"] {
            for model in &models {
                let flags = format!("{level} {flags} {model}");
                let object = compile("models.o", &flags, source);
                let image = link(&[&object, &definitions], &[]);
                let image = image.unwrap_or_else(|error| panic!("{flags}: {error}"));
                assert_eq!(image.stats.got_entries, 0, "{flags}: everything is a constant");
            }
        }
    }
}

#[test]
fn the_block_has_initial_values_first_and_aligned() {
    let a = compile(
        "a.o",
        "-O2",
        "__thread int a_value = 1; __thread char a_zero[3]; static int there;
        __thread int *a_pointer = &there; int *a_address(void) { return &there; }",
    );
    let b = compile(
        "b.o",
        "-O2",
        "__thread char b_value = 2; __thread int b_wide __attribute__((aligned(64))) = 3;
        __thread long b_zero __attribute__((aligned(256)));",
    );
    let layout = graph(&[&a, &b]).unwrap().layout().unwrap();
    let (bytes, alignment) = layout.thread_bytes();
    assert_eq!(alignment, 256);
    let image = layout.fixup(BASES.map(ExecutorAddr::new), THREAD_OFFSET).unwrap();
    let threads = image.threads.unwrap();
    assert_eq!((threads.offset, threads.bytes), (THREAD_OFFSET, bytes));
    assert_eq!(stripe_of(&image, threads.initial.start.get()), Some(Prot::Constants));

    let definition = |name: &str| {
        let definition = image.symbols.get(name).unwrap();
        assert!(definition.thread, "{name}");
        definition.address.get().cast_signed() - THREAD_OFFSET
    };
    let value = |name: &str| threads.initial.start.get() + definition(name).cast_unsigned();
    assert_eq!(i32_at(&image, value("a_value")), 1);
    assert_eq!(bytes_at(&image, value("b_value"))[0], 2);
    assert_eq!(i32_at(&image, value("b_wide")), 3);
    assert_eq!(definition("b_wide") % 64, 0);
    let there = u64_at(&image, value("a_pointer"));
    assert_eq!(stripe_of(&image, there), Some(Prot::Data), "initial values are relocated");
    for zero in ["a_zero", "b_zero"] {
        let start = definition(zero).cast_unsigned();
        assert!(start >= threads.initial.bytes() && start < bytes, "{zero} has no initial value");
    }
    assert_eq!(definition("b_zero") % 256, 0);
    assert!(threads.initial.bytes() < image.bytes[Prot::Constants.index()] + 1);

    let none = link(&[&compile("none.o", "-O2", "int x;")], &[]).unwrap();
    assert_eq!(none.threads, None);
    let layout = graph(&[&b]).unwrap().layout().unwrap();
    let error = failure(layout.fixup(BASES.map(ExecutorAddr::new), THREAD_OFFSET + 128));
    assert!(
        error.kind() == ErrorKind::InvalidArgument && error.to_string().contains("256"),
        "{error}"
    );
}

#[test]
fn zeroes_of_threads_take_no_room_in_the_image() {
    let source = "__thread char huge[1 << 30]; char *f(void) { return huge + (1 << 29); }";
    let object = compile("huge.o", "-O2", source);
    let layout = graph(&[&object]).unwrap().layout().unwrap();
    assert_eq!(layout.thread_bytes().0, 1 << 30);
    assert!(layout.bytes().iter().sum::<u64>() < 4096, "{:?}", layout.bytes());
    let bases = BASES.map(ExecutorAddr::new);
    let image = layout.fixup(bases, -(1 << 30)).unwrap();
    assert_eq!(image.threads.unwrap().initial.bytes(), 0);
    let layout = graph(&[&object]).unwrap().layout().unwrap();
    let error = failure(layout.fixup(bases, -(4 << 30))).to_string();
    assert!(error.contains("`huge`") && error.contains("TPOFF32"), "{error}");
}

#[test]
fn data_can_hold_offsets_too() {
    let source = format!(
        "{VARIABLES}\n.data\n.globl place\nplace: .quad second@dtpoff, second@tpoff\n\
         .long second@dtpoff, second@tpoff\n"
    );
    let image = link(&[&compile("data.o", "-xassembler", &source)], &[]).unwrap();
    let place = address_of(&image, "place");
    assert_eq!((u64_at(&image, place), u64_at(&image, place + 8)), (4, offset_of(4)));
    assert_eq!(i32_at(&image, place + 16), 4);
    assert_eq!(i64::from(i32_at(&image, place + 20)), THREAD_OFFSET + 4);
}

#[test]
fn thread_locals_of_earlier_links_have_their_offsets() {
    let source = "extern __thread int earlier; int f(void) { return earlier; }";
    for flags in ["-O2", "-O2 -fPIC", "-O2 -fPIC -mtls-dialect=gnu2"] {
        let mut graph = graph(&[&compile("later.o", flags, source)]).unwrap();
        let needs = graph.undefined();
        assert_eq!(needs.len(), 1, "{flags}: __tls_get_addr is not needed: {needs:?}");
        assert!(needs[0].thread && &*needs[0].name == "earlier");
        let address = ExecutorAddr::new((-0x1234_i64).cast_unsigned());
        graph.define_external("earlier", External { thread: true, ..External::from(address) });
        let image = graph.layout().unwrap().fixup(BASES.map(ExecutorAddr::new), 0).unwrap();
        let f = bytes_at(&image, address_of(&image, "f"));
        let offset = (-0x1234_i32).to_le_bytes();
        assert!(f.windows(4).any(|window| window == offset), "{flags}: {f:x?}");
    }
}

#[test]
fn a_weak_thread_local_that_is_missing_has_offset_zero() {
    let source = "extern __thread int v __attribute__((weak)); int *f(void) { return &v; }";
    let image = link(&[&compile("weak.o", "-O2", source)], &[]).unwrap();
    let f = bytes_at(&image, address_of(&image, "f"));
    let expected = assembled("movq $0, %rax\n addq %fs:0, %rax");
    let start = f.windows(expected.len()).position(|window| window == expected);
    assert!(start.is_some_and(|start| start <= 4), "{f:x?}");
}

#[test]
fn an_undefined_thread_local_is_refused_with_advice() {
    let source = "extern __thread int elsewhere; int f(void) { return elsewhere; }";
    for (flags, relocation) in
        [("-O2", "GOTTPOFF"), ("-O2 -fPIC", "TLSGD"), ("-O2 -fPIC -mtls-dialect=gnu2", "TLSDESC")]
    {
        let error = failure(link(&[&compile("user.o", flags, source)], &[])).to_string();
        let wanted = ["user.o", ".text", "`elsewhere`", relocation, "shared library"];
        assert!(wanted.iter().all(|part| error.contains(part)), "{error}");
    }
}

#[test]
fn objects_have_to_agree_on_what_is_thread_local() {
    let thread = compile("thread.o", "-O2", "__thread int x = 1;");
    let plain = compile("plain.o", "-O2", "int x = 1;");
    let uses_thread = compile("t.o", "-O2", "extern __thread int x; int f(void) { return x; }");
    let uses_plain = compile("p.o", "-O2", "extern int x; int f(void) { return x; }");
    assert!(link(&[&thread, &uses_thread], &[]).is_ok());
    let error = failure(link(&[&plain, &uses_thread], &[])).to_string();
    assert!(error.contains("t.o") && error.contains("plain.o") && error.contains("`x`"), "{error}");
    let error = failure(link(&[&thread, &uses_plain], &[])).to_string();
    assert!(error.contains("p.o") && error.contains("thread.o"), "{error}");
    assert!(error.contains("extern __thread"), "{error}");
    assert!(link(&[&uses_thread], &[("x", FAR)]).is_err());
}

#[test]
fn sequences_that_are_none_are_refused() {
    let cases = [
        ("leaq second@tlsgd(%rip), %rdi\n call __tls_get_addr@PLT", "TLSGD"),
        (".byte 0x66\n leaq second@tlsgd(%rip), %rdi\n nop\n call __tls_get_addr@PLT", "TLSGD"),
        (
            ".byte 0x66\n leaq second@tlsgd(%rip), %rdi\n .word 0x6666\n rex64\n call other@PLT",
            "__tls_get_addr",
        ),
        (
            ".byte 0x66\n leaq second@tlsgd(%rip), %rdi\n .word 0x6666\n rex64\n .byte 0xe8, 0, 0, 0, 0",
            "__tls_get_addr",
        ),
        ("leaq second@tlsld(%rip), %rsi\n call __tls_get_addr@PLT", "TLSLD"),
        ("leal second@tlsdesc(%rip), %eax", "TLSDESC"),
        ("nop\n .reloc . - 1, R_X86_64_TLSDESC_CALL, second", "TLSDESC_CALL"),
        (".data\n .quad 0\n .reloc . - 8, R_X86_64_TLSGD, second", "TLSGD"),
        (".data\n .quad 0\n .reloc . - 8, R_X86_64_GOTPC32_TLSDESC, second", "TLSDESC"),
    ];
    for (code, wanted) in cases {
        let source = format!("{VARIABLES}\n.text\nplace: {code}\n");
        let bytes = compile_bytes("bad.o", "-xassembler", &source);
        let error = failure(ObjectFile::parse("bad.o", bytes)).to_string();
        let parts = ["bad.o", "section .", "offset 0x", "`second`", wanted];
        assert!(parts.iter().all(|part| error.contains(part)), "{code}: {error}");
    }
}

#[test]
fn common_thread_locals_are_refused() {
    let source = ".tls_common x, 4, 4\n";
    let common = ".type x, @tls_object\n.comm x, 4, 4\n";
    for source in [source, common] {
        let bytes = compile_bytes("common.o", "-xassembler", source);
        let error = failure(ObjectFile::parse("common.o", bytes)).to_string();
        assert!(error.contains("`x`") && error.contains("-fno-common"), "{error}");
    }
}
