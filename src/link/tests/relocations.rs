//! Every formula, checked against the addresses by hand.

use super::*;

/// The target of the `call` or `jmp` with a 32-bit displacement at an address.
fn branch_target(image: &Image, address: u64) -> u64 {
    assert!(matches!(bytes_at(image, address)[0], 0xe8 | 0xe9), "no branch at {address:#x}");
    (address + 5).wrapping_add_signed(i64::from(i32_at(image, address + 1)))
}

#[test]
fn calls_between_objects_are_direct() {
    let a = compile("a.o", "-O2", "int b(void); int a(void) { return b() + 1; }");
    let b = compile("b.o", "-O2", "int b(void) { return 41; }");
    let image = link(&[&a, &b], &[]).unwrap();
    let a = address_of(&image, "a");
    let call = bytes_at(&image, a).iter().position(|byte| *byte == 0xe8).unwrap() as u64;
    assert_eq!(branch_target(&image, a + call), address_of(&image, "b"));
    assert_eq!(image.stats.stubs, 0);
    assert_eq!(stripe_of(&image, a), Some(Prot::Code));
}

#[test]
fn far_calls_go_through_a_stub_and_near_ones_do_not() {
    let a = compile("a.o", "-O2", "int f(void); int a(void) { return f(); }");
    let image = link(&[&a], &[("f", FAR)]).unwrap();
    let stub = branch_target(&image, address_of(&image, "a") + jump_offset(&image));
    assert_eq!(bytes_at(&image, stub)[..2], [0xff, 0x25]);
    let entry = (stub + 6).wrapping_add_signed(i64::from(i32_at(&image, stub + 2)));
    assert_eq!(stripe_of(&image, entry), Some(Prot::Constants));
    assert_eq!(u64_at(&image, entry), FAR);

    let image = link(&[&a], &[("f", NEAR)]).unwrap();
    assert_eq!(branch_target(&image, address_of(&image, "a") + jump_offset(&image)), NEAR);
}

/// Where in `a` its only `jmp` is.
fn jump_offset(image: &Image) -> u64 {
    let a = address_of(image, "a");
    bytes_at(image, a).iter().position(|byte| *byte == 0xe9).unwrap() as u64
}

#[test]
fn what_nobody_defines_is_named() {
    let a = compile("a.o", "-O2", "int f(void); extern int v; int a(void) { return f() + v; }");
    let missing = failure(link(&[&a], &[]));
    assert_eq!(missing.symbols(), ["f", "v"]);
}
