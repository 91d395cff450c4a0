//! Dynamic thread-locals: the code that finds them, their descriptors, and what cannot be linked with them.

use crate::error::ErrorKind;
use crate::tests::*;
use crate::verify::link_map::LinkMap;
use crate::verify::verify;
use crate::{External, Layout};

/// The function that code calls, and the function that descriptors hold.
const FUNCTION: u64 = FAR + 0x100;
const DESCRIPTOR: u64 = FAR + 0x200;

/// The number of the TLS module.
const MODULE: u32 = 9;

/// Two variables at distances 0 and 4 from the start of a TLS block of 12 bytes.
const VARIABLES: &str = "
    .section .tdata,\"awT\",@progbits
    .globl first, second
    .p2align 2
    first: .long 11
    second: .long 22, 33
";

fn layout(objects: &[&ObjectFile], externals: &[(&str, External)]) -> Result<Layout> {
    let mut graph = graph(objects)?;
    for (name, external) in externals {
        graph.define_external(name, *external);
    }
    graph.define_thread_functions(ExecutorAddr::new(FUNCTION), ExecutorAddr::new(DESCRIPTOR))?;
    graph.layout()
}

fn dynamic(objects: &[&ObjectFile], externals: &[(&str, External)]) -> Result<Image> {
    let layout = layout(objects, externals)?.with_dynamic_threads(MODULE)?;
    // The offset is ignored.
    layout.fixup(BASES.map(ExecutorAddr::new), 3)
}

/// A thread-local of another link.
fn elsewhere(tls_module: Option<u32>, address: u64) -> External {
    External { thread: true, tls_module, ..External::from(ExecutorAddr::new(address)) }
}

/// The target of an instruction whose 4-byte field ends `end` bytes from a place.
fn reached(image: &Image, end: u64) -> u64 {
    end.wrapping_add_signed(i64::from(i32_at(image, end - 4)))
}

/// The three words of the descriptor at an address, which are constants.
fn descriptor(image: &Image, at: u64) -> [u64; 3] {
    assert_eq!(stripe_of(image, at), Some(Prot::Constants));
    [0, 8, 16].map(|word| u64_at(image, at + word))
}

/// The target of the stub at an address.
fn behind_stub(image: &Image, stub: u64) -> u64 {
    assert_eq!(stripe_of(image, stub), Some(Prot::Code));
    assert_eq!(bytes_at(image, stub)[..2], [0xff, 0x25]);
    u64_at(image, reached(image, stub + 6))
}

#[test]
fn every_sequence_asks_the_executor() {
    let call = "call __tls_get_addr@PLT";
    let through_got = "call *__tls_get_addr@GOTPCREL(%rip)";
    let far =
        |got| format!("movabsq $__tls_get_addr@PLTOFF, %rax\n addq %{got}, %rax\n call *%rax");
    let padded = ".byte 0x66\n leaq second@tlsgd(%rip), %rdi";
    let plain = "leaq second@tlsgd(%rip), %rdi";
    let local = "leaq second@tlsld(%rip), %rdi";
    // The code, the ends of its two fields, its length, and the distance asked for.
    let cases = [
        (format!("{padded}\n .word 0x6666\n rex64\n {call}"), 8, 16, 16, 4),
        (format!("{padded}\n .byte 0x66\n rex64\n .byte 0x67\n {call}"), 8, 16, 16, 4),
        (format!("{padded}\n .byte 0x66\n rex64\n {through_got}"), 8, 16, 16, 4),
        (format!("{plain}\n {}", far("rbx")), 7, 12, 22, 4),
        (format!("{plain}\n {}", far("r15")), 7, 12, 22, 4),
        (format!("{local}\n {call}"), 7, 12, 12, 0),
        (format!("{local}\n .byte 0x67\n {call}"), 7, 13, 13, 0),
        (format!("{local}\n {through_got}"), 7, 13, 13, 0),
        (format!("{local}\n {}", far("rbx")), 7, 12, 22, 0),
        (format!("{local}\n {}", far("r15")), 7, 12, 22, 0),
    ];
    for (code, words_end, call_end, length, distance) in cases {
        let source = format!("{VARIABLES}\n.text\n.globl place, end\nplace: {code}\nend: ret\n");
        let object = compile("code.o", "-xassembler", &source);
        let image = dynamic(&[&object], &[]).unwrap();
        let place = address_of(&image, "place");
        assert_eq!(address_of(&image, "end"), place + length, "{code}");
        let words = reached(&image, place + words_end);
        let expected = [DESCRIPTOR, u64::from(MODULE), distance];
        assert_eq!(descriptor(&image, words - 8), expected, "{code}");
        let stub = reached(&image, place + call_end);
        assert_eq!(behind_stub(&image, stub), FUNCTION, "{code}");
    }
}

#[test]
fn descriptors_are_called_through() {
    let code = "leaq second@tlsdesc(%rip), %r9\n nop\n call *second@tlscall(%rax)\n\
        lea _TLS_MODULE_BASE_@tlsdesc(%rip), %rax\n call *_TLS_MODULE_BASE_@tlscall(%rax)\n\
        leaq second@dtpoff+2(%rax), %rcx\n movabsq $second@dtpoff, %rcx";
    let source = format!("{VARIABLES}\n.text\n.globl place\nplace: {code}\n");
    let object = compile("code.o", "-xassembler", &source);
    let image = dynamic(&[&object], &[]).unwrap();
    let place = address_of(&image, "place");
    let code = bytes_at(&image, place);
    assert_eq!((&code[..3], &code[7..10]), (&[0x4c, 0x8d, 0x0d][..], &[0x90, 0xff, 0x10][..]));
    assert_eq!(code[17..19], [0xff, 0x10]);
    for (end, distance) in [(7, 4), (17, 0)] {
        let expected = [DESCRIPTOR, u64::from(MODULE), distance];
        assert_eq!(descriptor(&image, reached(&image, place + end)), expected);
    }
    assert_eq!((i32_at(&image, place + 22), u64_at(&image, place + 28)), (6, 4));
    assert_eq!(image.stats.stubs, 0, "nothing is called by name");
}

#[test]
fn code_compiled_for_libraries_can_be_dynamic() {
    let source = "
        extern __thread int elsewhere; static __thread int own = 5, zero; __thread long shared = 4;
        extern __thread char array[100];
        int *address(void) { return &elsewhere; }
        int get(void) { return elsewhere + own + zero; }
        long set(long value) { elsewhere += value; own++; zero--; shared = value; return own * zero; }
        char *at(long i) { return &array[i]; }
    ";
    let definitions = "__thread int elsewhere = 1; __thread char array[100];";
    let definitions = compile("definitions.o", "-O2 -fPIC", definitions);
    for flags in [
        "-fPIC",
        "-fPIC -fno-plt",
        "-fPIC -mtls-dialect=gnu2",
        "-fPIC -mcmodel=large",
        "-fPIC -mcmodel=medium",
        "-fPIC -ftls-model=local-dynamic",
        "-fPIC -ftls-model=local-dynamic -mtls-dialect=gnu2",
    ] {
        for level in ["-O0", "-O2"] {
            let object = compile("library.o", &format!("{level} {flags}"), source);
            let image = dynamic(&[&object, &definitions], &[]).unwrap();
            let threads = image.threads.unwrap();
            assert_eq!((threads.offset, threads.module), (0, Some(MODULE)), "{flags}");
            // At most one descriptor for each of the five and for the TLS block, and the entry of the stub.
            assert!((1..=19).contains(&image.stats.got_entries), "{flags}");
            let shared = image.symbols.get("shared").unwrap();
            assert!(shared.thread && shared.tls_module == Some(MODULE));
            assert!(shared.address.get() < threads.bytes, "it is a distance in the TLS block");
        }
    }
}

#[test]
fn data_holds_distances_in_the_block() {
    let source = format!(
        "{VARIABLES}\n.data\n.globl place\nplace: .quad second@dtpoff\n.long second@dtpoff\n"
    );
    let image = dynamic(&[&compile("data.o", "-xassembler", &source)], &[]).unwrap();
    let place = address_of(&image, "place");
    assert_eq!((u64_at(&image, place), i32_at(&image, place + 8)), (4, 4));
}

#[test]
fn thread_locals_of_other_links_keep_their_kind() {
    let source = "extern __thread int x, y; static __thread int own = 1;
        int f(void) { return x; } int g(void) { return y; } int h(void) { return own++; }";
    for flags in ["-O2 -fPIC", "-O2 -fPIC -mtls-dialect=gnu2"] {
        let object = compile("user.o", flags, source);
        let externals = [
            ("x", elsewhere(Some(4), 0x88)),
            ("y", elsewhere(None, (-0x1234_i64).cast_unsigned())),
        ];
        let images = [
            dynamic(&[&object], &externals).unwrap(),
            layout(&[&object], &externals)
                .unwrap()
                .fixup(BASES.map(ExecutorAddr::new), THREAD_OFFSET)
                .unwrap(),
        ];
        for (image, own) in images.iter().zip([Some(u64::from(MODULE)), None]) {
            let got = bytes_at(image, BASES[1])
                .chunks_exact(8)
                .map(|word| u64::from_le_bytes(*word.first_chunk().unwrap()));
            let got: Vec<u64> = got.collect();
            let modules: Vec<[u64; 2]> = got
                .windows(3)
                .filter(|words| words[0] == DESCRIPTOR)
                .map(|words| [words[1], words[2]])
                .collect();
            let mut expected = vec![[4, 0x88]];
            expected.extend(own.map(|own| [own, 0]));
            assert_eq!(modules, expected, "{flags}");
            let g = bytes_at(image, address_of(image, "g"));
            assert!(
                g.windows(4).any(|four| four == (-0x1234_i32).to_le_bytes()),
                "{flags}: {g:x?}"
            );
        }
    }
}

#[test]
fn constant_offsets_are_refused_with_advice() {
    let definition = "__thread int x = 1; int f(void) { return x; }";
    let user = "extern __thread int x; int f(void) { return x; }";
    let initial = "extern __thread int x; long f(void) { return (long)&x; }";
    let library = "__thread int x = 1;";
    for (flags, source, relocation) in [
        ("-O2", definition, "TPOFF32"),
        ("-O2 -fPIC -ftls-model=initial-exec", definition, "GOTTPOFF"),
        ("-O2", user, "GOTTPOFF"),
        ("-O2 -fPIE -mcmodel=large", initial, "GOTTPOFF"),
    ] {
        let object = compile("user.o", flags, source);
        let library = compile("library.o", "-O2 -fPIC", library);
        let mut objects = vec![&object];
        if source != definition {
            objects.push(&library);
        }
        let error = failure(dynamic(&objects, &[])).to_string();
        let wanted = [
            "user.o",
            "section .text",
            "offset 0x",
            relocation,
            "`x`",
            "-fPIC -ftls-model=global-dynamic",
        ];
        assert!(wanted.iter().all(|part| error.contains(part)), "{flags}: {error}");
        if source != definition {
            let error = failure(layout(&[&object], &[("x", elsewhere(Some(4), 8))])).to_string();
            assert!(wanted.iter().all(|part| error.contains(part)), "{flags}: {error}");
        }
    }
}

#[test]
fn distances_in_the_blocks_of_others_are_refused() {
    let source = ".text\n.globl x\nf: leaq x@dtpoff(%rax), %rcx\n.data\n.quad x@dtpoff\n";
    let object = compile("user.o", "-xassembler", source);
    let own = compile("own.o", "-O2 -fPIC", "__thread int own = 1;");
    for (module, is_dynamic) in [(Some(4), true), (Some(4), false), (None, true)] {
        let externals = [("x", elsewhere(module, 8))];
        let outcome = layout(&[&object, &own], &externals);
        let outcome = if is_dynamic {
            outcome.and_then(|one| one.with_dynamic_threads(MODULE))
        } else {
            outcome
        };
        let error = failure(outcome).to_string();
        assert!(error.contains("DTPOFF32") && error.contains("`x`"), "{error}");
    }
    assert!(layout(&[&object, &own], &[("x", elsewhere(None, 8))]).is_ok());
}

#[test]
fn no_byte_can_change_unseen() {
    let source = format!(
        "{VARIABLES}\n.section .tbss,\"awT\",@nobits\nzero: .zero 8\n.text\nf: .byte 0x66\n\
         leaq first@tlsgd(%rip), %rdi\n .word 0x6666\n rex64\n call __tls_get_addr@PLT\n\
         leaq zero@tlsld(%rip), %rdi\n call *__tls_get_addr@GOTPCREL(%rip)\n leaq zero@dtpoff(%rax), %rax\n\
         leaq second@tlsdesc(%rip), %rax\n call *second@tlscall(%rax)\n\
         leaq x@tlsdesc(%rip), %rax\n call *x@tlscall(%rax)\n leaq first@tlsgd(%rip), %rdi\n\
         movabsq $__tls_get_addr@PLTOFF, %rax\n addq %rbx, %rax\n call *%rax\n.data\n.quad second@dtpoff\n"
    );
    let object = compile("all.o", "-xassembler", &source);
    let layout = layout(&[&object], &[("x", elsewhere(Some(4), 0x88))]).unwrap();
    let layout = layout.with_dynamic_threads(MODULE).unwrap();
    let (mut image, addresses) = layout.compute(BASES.map(ExecutorAddr::new), 0).unwrap();
    let map = LinkMap::new(&layout, &addresses, BASES);
    verify(&map, &image).unwrap();
    let mut used = [0_usize; 3];
    for block in layout.blocks.iter().filter(|block| block.rank.is_stored()) {
        used[block.prot.index()] += usize::try_from(block.bytes).unwrap();
    }
    for stripe in 0..3 {
        let mut seen = 0;
        for at in 0..image.stripes[stripe].len() {
            image.stripes[stripe][at] ^= 0x11;
            seen += usize::from(verify(&map, &image).is_err());
            image.stripes[stripe][at] ^= 0x11;
        }
        // The stub ends with padding, and no code calls through two of the descriptors.
        assert_eq!(seen, used[stripe] - [2, 16, 0][stripe], "stripe {stripe}");
    }
    type Plant = fn(&mut Image);
    let plants: [Plant; 3] = [
        |image| image.threads.as_mut().unwrap().module = None,
        |image| image.threads.as_mut().unwrap().module = Some(MODULE + 1),
        |image| image.threads = None,
    ];
    for plant in plants {
        let (mut image, _) = layout.compute(BASES.map(ExecutorAddr::new), 0).unwrap();
        plant(&mut image);
        assert!(verify(&map, &image).is_err());
    }
}

#[test]
fn without_functions_there_is_nothing_to_call() {
    let object = compile("own.o", "-O2 -fPIC", "__thread int own = 1; int f(void) { return own; }");
    let layout = graph(&[&object]).unwrap().layout().unwrap();
    assert!(failure(layout.with_dynamic_threads(MODULE)).kind() == ErrorKind::InvalidArgument);
}
