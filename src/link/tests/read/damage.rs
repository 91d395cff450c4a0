//! Files that are not sound: the worst result is an error of one line.

use crate::tests::*;
use crate::verify::WRONG_IMAGE;

/// Reads and links a file with all passes.
fn attempt(bytes: &[u8]) -> Result<Image> {
    let object = ObjectFile::parse("damaged.o", bytes.to_vec())?;
    let mut graph = graph(&[&object])?;
    for need in graph.undefined() {
        graph.define_external(&need.name, ExecutorAddr::new(NEAR));
    }
    let layout = graph.layout()?;
    if layout.bytes().iter().sum::<u64>() > 1 << 24 {
        // More than a controller would allocate.
        return Err(Error::link("too large"));
    }
    layout.fixup(BASES.map(ExecutorAddr::new), THREAD_OFFSET)
}

/// A small object with a little of everything.
fn rich_object() -> Vec<u8> {
    let source = "
        .globl f, d
        .weak w
        .section .text.g,\"axG\",@progbits,g,comdat
        .weak g
        .type g, @function
        g: .cfi_startproc
        ret
        .cfi_endproc
        .text
        .type f, @function
        f: .cfi_startproc
        call g
        call outside
        movq w@GOTPCREL(%rip), %rax
        ret
        .cfi_endproc
        .size f, . - f
        .data
        d: .quad f, .rodata
        .comm c, 64, 32
        .section .rodata
        .asciz \"x\"
        .bss
        .zero 32
        .section .init_array,\"aw\",@init_array
        .quad f
        .section .ctors,\"aw\",@progbits
        .quad f
    ";
    compile_bytes("rich.o", "-xassembler", source)
}

#[test]
fn truncation_at_any_byte_is_an_error() {
    let whole = rich_object();
    assert!(attempt(&whole).is_ok());
    for end in 0..whole.len() {
        let error = failure(attempt(&whole[..end]));
        let text = error.to_string();
        assert!(error.is_link() && text.starts_with("damaged.o: "), "{end}: {text}");
        assert!(!text.contains('\n') && text.len() < 300, "{end}: {text}");
    }
}

#[test]
fn no_changed_byte_does_worse_than_an_error() {
    let whole = rich_object();
    let (mut errors, mut links) = (0, 0);
    for at in 0..whole.len() {
        for new in [0, 1, 0x7f, 0x80, 0xff, whole[at] ^ 1, whole[at].wrapping_add(8)] {
            let mut damaged = whole.clone();
            damaged[at] = new;
            match attempt(&damaged) {
                Ok(_) => links += 1,
                Err(error) => {
                    assert!(error.is_link(), "{error}");
                    let text = error.to_string();
                    assert!(!text.contains('\n') && !text.contains(WRONG_IMAGE), "{at}: {text}");
                    errors += 1;
                }
            }
        }
    }
    assert!(errors > 500 && links > 500, "{errors} errors, {links} links");
}

#[test]
fn no_changed_pair_of_words_does_worse_than_an_error() {
    let whole = rich_object();
    let words = whole.len() / 8;
    let values =
        [0_u64, 1, u64::MAX, 1 << 63, u64::from(u32::MAX), 1 << 32, 0x10_0000_0001, 24, 4096];
    for round in 0..6000_usize {
        let mut damaged = whole.clone();
        for part in [round.wrapping_mul(7919), round.wrapping_mul(104_729) + 13] {
            let at = part % words * 8;
            damaged[at..at + 8].copy_from_slice(&values[part % values.len()].to_le_bytes());
        }
        if let Err(error) = attempt(&damaged) {
            assert!(!error.to_string().contains(WRONG_IMAGE), "{round}: {error}");
        }
    }
}

#[test]
fn other_files_are_called_what_they_are() {
    let object = compile_bytes("a.o", "", "int x;");
    let patched = |at: usize, bytes: &[u8]| {
        let mut copy = object.clone();
        copy[at..at + bytes.len()].copy_from_slice(bytes);
        copy
    };
    let section_table = u64::from_le_bytes(*object[40..].first_chunk().unwrap());
    let section_table = usize::try_from(section_table).unwrap();
    let cases: [(Vec<u8>, &str); 18] = [
        (Vec::new(), "empty"),
        (b"int main() {}".to_vec(), "not an ELF file (starts with bytes 69 6e 74 20)"),
        (b"!<arch>\n".to_vec(), "archive"),
        (b"BC\xc0\xde1234".to_vec(), "without -flto"),
        (b"MZ\x90\0".to_vec(), "Windows"),
        (b"\xcf\xfa\xed\xfe".to_vec(), "Mach-O"),
        (b"\0asm\x01\0\0\0".to_vec(), "WebAssembly"),
        (object[..40].to_vec(), "truncated: 40 bytes"),
        (patched(4, &[1]), "32-bit"),
        (patched(5, &[2]), "big-endian"),
        (patched(6, &[9]), "version 9"),
        (patched(16, &[2]), "executable"),
        (patched(16, &[3]), "-l NAME"),
        (patched(16, &[4]), "core dump"),
        (patched(18, &40_u16.to_le_bytes()), "ARM (machine 40), not for x86-64 or AArch64"),
        (patched(18, &9999_u16.to_le_bytes()), "machine 9999"),
        (patched(40, &u64::MAX.to_le_bytes()), "section headers"),
        // The type in the first section header.
        (patched(section_table + 4, &[2]), "should be empty"),
    ];
    for (bytes, wanted) in cases {
        let error = failure(ObjectFile::parse("a.o", bytes)).to_string();
        assert!(error.starts_with("a.o: ") && error.contains(wanted), "{wanted}: {error}");
    }
}

#[test]
fn compilers_other_outputs_are_called_what_they_are() {
    let source = "int f(void) { return 1; }";
    let lto = compile_bytes("lto.o", "-O2 -flto", source);
    let error = failure(ObjectFile::parse("lto.o", lto)).to_string();
    assert!(error.contains("-fno-lto"), "{error}");
    let fat = compile("fat.o", "-O2 -flto -ffat-lto-objects", source);
    assert!(link(&[&fat], &[]).unwrap().symbols.get("f").is_some());
    let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let error = failure(ObjectFile::parse("program", program)).to_string();
    assert!(error.contains("an executable"), "{error}");
}

#[test]
fn many_sections_are_counted_beyond_16_bits() {
    // More sections than st_shndx can say, so that SHN_XINDEX is used.
    let mut source = String::new();
    for number in 0..66_000 {
        source += &format!(".section .s{number},\"a\"\n.byte {}\n", number % 251);
    }
    source +=
        ".globl last\n.data\nlast: .long 77\n.quad first\n.globl first\n.section .s65999\nfirst:\n";
    let image = link(&[&compile("many.o", "-xassembler", &source)], &[]).unwrap();
    assert_eq!(i32_at(&image, address_of(&image, "last")), 77);
    let first = address_of(&image, "first");
    assert_eq!(u64_at(&image, address_of(&image, "last") + 4), first);
    assert_eq!(bytes_at(&image, first - 1)[0], u8::try_from(65_999 % 251).unwrap());
}

#[test]
fn names_do_not_break_lines() {
    let source = ".globl twolines\ntwolines:\n.section .odd,\"a\"\nlocal: .byte 1\n";
    let bytes = compile_bytes("a.o", "-xassembler", source);
    let broken = |name: &str| {
        let mut bytes = bytes.clone();
        let at = bytes.windows(name.len()).position(|window| window == name.as_bytes()).unwrap();
        bytes[at + 3] = b'\n';
        ObjectFile::parse("a.o", bytes)
    };
    let error = failure(broken("twolines")).to_string();
    assert!(error.contains("printable") && !error.contains('\n'), "{error}");
    assert!(broken("local").is_ok(), "no other object sees that name");
}

#[test]
fn names_that_overlap_too_much_are_refused() {
    // A string table of one long name, and symbols that start at every byte of it.
    let long = "n".repeat(20_000);
    let mut source = format!(".globl {long}\n{long}:\n");
    for number in 0..2000 {
        source += &format!(".globl s{number}\ns{number}:\n");
    }
    let mut bytes = compile_bytes("names.o", "-xassembler", &source);
    assert!(ObjectFile::parse("names.o", bytes.clone()).is_ok());
    let content = |name: &str| {
        let offset = section_header(&bytes, name) + 24;
        let offset = u64::from_le_bytes(*bytes[offset..].first_chunk().unwrap());
        usize::try_from(offset).unwrap()
    };
    let (strings, symbols) = (content(".strtab"), content(".symtab"));
    let is_long = |start: &usize| bytes[*start..*start + 64].iter().all(|byte| *byte == b'n');
    let offset = u32::try_from((strings..).find(is_long).unwrap() - strings).unwrap();
    for index in 1..2000_u32 {
        let at = symbols + 24 * index as usize;
        bytes[at..at + 4].copy_from_slice(&(offset + index).to_le_bytes());
    }
    let error = failure(ObjectFile::parse("names.o", bytes)).to_string();
    assert!(error.contains("overlap"), "{error}");
}
