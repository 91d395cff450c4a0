//! The symbol file of an image, read back by another reader of ELF.

use object::read::elf::ElfFile64;
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, SymbolKind};

use crate::addr::AddrRange;
use crate::tests::*;

#[test]
fn has_every_function_of_the_image_at_its_place() {
    let source = "int far(int); __attribute__((noinline)) static int inner(int x) { return far(x) + 1; }\n\
                  int outer(int x) { return inner(x) * 2; } int variable = 3;";
    let image = link(&[&compile("c.o", "-O1 -fPIC", source)], &[("far", FAR)]).unwrap();
    let code = AddrRange::sized(ExecutorAddr::new(BASES[0]), image.bytes[0]).unwrap();
    let bytes = image.symbols.symbol_file(code);
    let file = ElfFile64::<object::Endianness>::parse(&*bytes).unwrap();
    let segments: Vec<_> = file.segments().map(|one| (one.address(), one.size())).collect();
    assert_eq!(segments, [(0, code.bytes())]);
    assert_eq!(file.section_by_name(".text").unwrap().size(), code.bytes());
    let symbols: Vec<_> = file.symbols().collect();
    assert!(symbols.iter().all(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0));
    assert!(symbols.is_sorted_by_key(|symbol| symbol.address()));
    let mut names: Vec<_> = symbols.iter().map(|symbol| symbol.name().unwrap()).collect();
    for symbol in &symbols {
        let place = image.symbols.locate(ExecutorAddr::new(BASES[0] + symbol.address())).unwrap();
        assert!(place.starts_with(&format!("{}+0x0 ", symbol.name().unwrap())), "{place}");
    }
    names.sort_unstable();
    assert_eq!(names, ["far@plt", "inner", "outer"]);
}

#[test]
fn of_no_functions_is_a_file_without_symbols() {
    let image = link(&[&compile("c.o", "-O1", "int variable = 3;")], &[]).unwrap();
    let bytes = image.symbols.symbol_file(AddrRange::default());
    let file = ElfFile64::<object::Endianness>::parse(&*bytes).unwrap();
    assert_eq!(file.symbols().count(), 0);
}
