//! Archives: a link takes the members that it needs and no others.

use crate::tests::*;
use bytes::Bytes;
use std::sync::{Arc, Mutex};

use crate::Archive;

/// Makes an archive with `ar` and its options, such as `rcs`.
pub(in crate::tests) fn archive(options: &str, members: &[(&str, &str)]) -> Archive {
    Archive::parse("lib.a", archive_bytes(options, members)).unwrap()
}

fn archive_bytes(options: &str, members: &[(&str, &str)]) -> Vec<u8> {
    let scratch = Scratch::new();
    let mut command = Command::new("ar");
    command.current_dir(&scratch.0).args([options, "lib.a"]);
    for (name, source) in members {
        std::fs::write(scratch.0.join(name), compile_bytes(name, "-O1", source)).unwrap();
        command.arg(name);
    }
    assert!(command.status().unwrap().success());
    std::fs::read(scratch.0.join("lib.a")).unwrap()
}

const MEMBERS: [(&str, &str); 4] = [
    ("a.o", "int b(void); int a(void) { return b(); }"),
    ("b.o", "int c(void); int b(void) { return c(); }"),
    ("c.o", "int c(void) { return 3; } int c2(void) { return 4; }"),
    ("a_name_that_is_longer_than_sixteen.o", "int unneeded(void) { return 5; }"),
];

#[test]
fn members_are_pulled_to_a_fixpoint_whatever_their_order() {
    let main = compile("main.o", "-O1", "int a(void); int main(void) { return a(); }");
    let mut turned = MEMBERS;
    turned.reverse();
    for members in [MEMBERS, turned] {
        // With a symbol table and without one.
        for options in ["rcs", "rcS"] {
            let archive = archive(options, &members);
            let mut graph = graph(&[&main]).unwrap();
            assert_eq!(graph.add_archive(&archive).unwrap(), 3);
            assert!(graph.defines("c2") && !graph.defines("unneeded"));
            assert_eq!(graph.add_archive(&archive).unwrap(), 0, "nothing is needed twice");
            assert_eq!(graph.undefined(), []);
            let image = finish(graph, &[]).unwrap();
            assert_eq!(image.stats.objects, 4);
            let place = image.symbols.locate(ExecutorAddr::new(address_of(&image, "c"))).unwrap();
            assert_eq!(place, "c+0x0 (lib.a(c.o))");
        }
    }
}

#[test]
fn long_member_names_are_read() {
    let main =
        compile("main.o", "-O1", "int unneeded(void); int main(void) { return unneeded(); }");
    let mut graph = graph(&[&main]).unwrap();
    assert_eq!(graph.add_archive(&archive("rcs", &MEMBERS)).unwrap(), 1);
    let image = finish(graph, &[]).unwrap();
    let place = image.symbols.locate(ExecutorAddr::new(address_of(&image, "unneeded"))).unwrap();
    assert_eq!(place, "unneeded+0x0 (lib.a(a_name_that_is_longer_than_sixteen.o))");
}

#[test]
fn members_stay_where_they_are_in_the_archive() {
    let file = archive_bytes("rcs", &MEMBERS);
    let (start, end) = (file.as_ptr().addr(), file.as_ptr().addr() + file.len());
    let archive = Archive::parse("lib.a", file).unwrap();
    for name in ["a", "b", "c", "unneeded"] {
        let member = archive.member_defining(name).unwrap().unwrap();
        let at = member.bytes().as_ptr().addr();
        assert!(start < at && at + member.bytes().len() <= end, "{name} was copied");
        let again = archive.member_defining(name).unwrap().unwrap();
        assert!(again.shares_with(&member), "{name} was read twice");
    }
}

#[test]
fn members_may_start_at_any_even_offset() {
    for padding in ["", "ab", "abcd", "abcdef"] {
        let note = format!("{padding}ab");
        let main = compile("main.o", "-O1", "int a(void); int main(void) { return a(); }");
        let file = with_note(&archive_bytes("rcS", &MEMBERS[..3]), &note);
        let mut graph = graph(&[&main]).unwrap();
        assert_eq!(graph.add_archive(&Archive::parse("lib.a", file).unwrap()).unwrap(), 3);
        finish(graph, &[]).unwrap();
    }
}

/// The archive with a first member that is no object.
fn with_note(archive: &[u8], note: &str) -> Vec<u8> {
    let header =
        format!("{:<48}{:<10}`\n", "note/           0           0     0     644", note.len());
    [&archive[..8], header.as_bytes(), note.as_bytes(), &archive[8..]].concat()
}

#[test]
fn weak_wishes_pull_nothing() {
    let source = "int a(void) __attribute__((weak)); int main(void) { return a ? a() : 1; }";
    let mut graph = graph(&[&compile("main.o", "-O1", source)]).unwrap();
    assert_eq!(graph.add_archive(&archive("rcs", &MEMBERS)).unwrap(), 0);
    assert!(graph.undefined()[0].weak);
}

/// Makes a thin archive of members in a folder, and a list that records which of them are read.
fn thin(options: &str, folder: &'static str) -> (Result<Archive>, Arc<Mutex<Vec<String>>>) {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.0.join("parts")).unwrap();
    let mut command = Command::new("ar");
    command.current_dir(&scratch.0).args([options, "lib.a"]);
    for (name, source) in MEMBERS {
        let name = format!("parts/{name}");
        std::fs::write(scratch.0.join(&name), compile_bytes(&name, "-O1", source)).unwrap();
        command.arg(name);
    }
    assert!(command.status().unwrap().success());
    let bytes = std::fs::read(scratch.0.join("lib.a")).unwrap();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&asked);
    let read = move |name: &str| {
        log.lock().unwrap().push(name.to_owned());
        std::fs::read(scratch.0.join(folder).join(name)).map(Bytes::from)
    };
    (Archive::parse_thin("lib.a", bytes, read), asked)
}

#[test]
fn members_of_thin_archives_are_read_when_they_are_needed() {
    let main = compile("main.o", "-O1", "int b(void); int main(void) { return b(); }");
    for (options, reads_at_once) in [("rcsT", 0), ("rcST", MEMBERS.len())] {
        let (archive, asked) = thin(options, "");
        let archive = archive.unwrap();
        assert_eq!(asked.lock().unwrap().len(), reads_at_once);
        asked.lock().unwrap().clear();
        for _ in 0..2 {
            let mut graph = graph(&[&main]).unwrap();
            assert_eq!(graph.add_archive(&archive).unwrap(), 2);
            let image = finish(graph, &[]).unwrap();
            let c = ExecutorAddr::new(address_of(&image, "c"));
            assert_eq!(image.symbols.locate(c).unwrap(), "c+0x0 (lib.a(parts/c.o))");
        }
        assert_eq!(*asked.lock().unwrap(), ["parts/b.o", "parts/c.o"], "once for both links");
    }
}

#[test]
fn a_missing_member_of_a_thin_archive_is_named() {
    let main = compile("main.o", "-O1", "int b(void); int main(void) { return b(); }");
    let archive = thin("rcsT", "elsewhere").0.unwrap();
    let error = failure(graph(&[&main]).unwrap().add_archive(&archive)).to_string();
    assert!(error.contains("lib.a(parts/b.o)") && error.contains("No such file"), "{error}");
    let error = failure(thin("rcST", "elsewhere").0).to_string();
    assert!(error.contains("lib.a(parts/a.o)") && error.contains("thin"), "{error}");
}

#[test]
fn archives_inside_of_thin_archives_are_refused() {
    let scratch = Scratch::new();
    std::fs::write(scratch.0.join("inner.a"), archive_bytes("rcs", &MEMBERS)).unwrap();
    let mut command = Command::new("ar");
    assert!(
        command
            .current_dir(&scratch.0)
            .args(["rcsT", "lib.a", "inner.a"])
            .status()
            .unwrap()
            .success()
    );
    let bytes = std::fs::read(scratch.0.join("lib.a")).unwrap();
    let error = failure(Archive::parse_thin("lib.a", bytes, |_| Ok(Bytes::new()))).to_string();
    assert!(error.contains("in other archives"), "{error}");
}

#[test]
fn irregular_archives_are_refused() {
    let thin = archive_bytes("rcsT", &MEMBERS);
    let whole = archive_bytes("rcs", &MEMBERS);
    let mut pointing_nowhere = whole.clone();
    // The first offset of the symbol table, behind the magic, its header and its count.
    pointing_nowhere[8 + 60 + 4..][..4].copy_from_slice(&[0, 0, 1, 1]);
    let object = compile_bytes("a.o", "", "int x;");
    let broken: [(&[u8], &str); 5] = [
        (&thin, "thin"),
        (b"", "not an archive"),
        (&object, "not an archive"),
        (&whole[..100], "100 bytes"),
        (&pointing_nowhere, "ranlib"),
    ];
    for (bytes, wanted) in broken {
        let error = failure(Archive::parse("lib.a", bytes.to_vec())).to_string();
        assert!(error.contains(wanted) && error.contains("lib.a"), "{wanted}: {error}");
    }
    assert!(Archive::parse("empty.a", &b"!<arch>\n"[..]).is_ok());
    let error = failure(Archive::parse_thin("lib.a", whole, |_| Ok(Bytes::new()))).to_string();
    assert!(error.contains("not a thin archive"), "{error}");
}

#[test]
fn damage_anywhere_in_an_archive_is_an_error_or_harmless() {
    let main = compile("main.o", "-O1", "int a(void); int main(void) { return a(); }");
    let whole = archive_bytes("rcs", &MEMBERS[..2]);
    let attempt = |bytes: &[u8]| {
        let archive = Archive::parse("lib.a", bytes.to_vec())?;
        let mut graph = graph(&[&main])?;
        graph.add_archive(&archive)
    };
    assert_eq!(attempt(&whole).unwrap(), 2);
    for end in (0..whole.len()).step_by(3) {
        let _ = attempt(&whole[..end]);
    }
    for at in (0..whole.len()).step_by(5) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0xff;
        let _ = attempt(&damaged);
    }
}
