//! The header: cbindgen makes it of the sources, and marks are added that it does not know.
//!
//! | mark | where |
//! |---|---|
//! | `FARCALL_NULLABLE` | on what the comment lists behind "May be NULL:", and on each `context` |
//! | the same | on members whose comment says NULL, on errors that functions return, and on "the result" in such a list |
//! | the same, and `FARCALL_NONNULL` | on the inner and the outer level of pointers to pointers |
//! | `FARCALL_` | in front of the names of enumerators |

use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../src/ffi")
}

/// The source files, in the order of the header.
const FILES: [&str; 32] = [
    "version",
    "text",
    "buffer",
    "facts",
    "error",
    "host",
    "value",
    "executor/options",
    "executor/life",
    "executor/library",
    "executor/builder",
    "executor/program",
    "executor/redirection",
    "executor/snapshot",
    "process/call_options",
    "process/function",
    "process/life",
    "process/offers",
    "process/call",
    "process/pipeline",
    "process/handler",
    "process/region",
    "process/memory",
    "process/orc/dylib",
    "process/orc/link",
    "client",
    "embed/service",
    "embed/handle",
    "embed/call",
    "embed/options",
    "embed/session",
    "embed/polled",
];

/// The files that have nothing for C.
const OTHERS: [&str; 4] = ["mod", "object", "files", "process/answers"];

/// The header that the sources make.
fn made() -> String {
    let folder = folder();
    let mut config = cbindgen::Config::from_file(folder.join("cbindgen.toml")).expect("a config");
    config.language = cbindgen::Language::C;
    let mut builder = cbindgen::Builder::new().with_config(config);
    for file in FILES {
        builder = builder.with_src(folder.join(format!("{file}.rs")));
    }
    let mut made = Vec::new();
    builder.generate().expect("a header").write(&mut made);
    guarded(&marked(&String::from_utf8(made).expect("text")))
}

/// Puts the end of the guard behind the trailer, which cbindgen writes last.
fn guarded(header: &str) -> String {
    let guard = "#endif  /* FARCALL_H */\n";
    let (front, trailer) = header.split_once(guard).expect("a guard");
    format!("{}\n{trailer}\n{guard}", front.trim_end_matches('\n'))
}

/// Adds the marks.
fn marked(header: &str) -> String {
    let mut marked = String::new();
    let (mut comment, mut is_enum) = (String::new(), false);
    let mut nullable = may_be_null("");
    for line in header.lines() {
        let code = line.trim_start();
        if let Some(said) = code.strip_prefix("//") {
            if said == " # Safety" {
                // The heading is Rust's; what is under it is for C as well.
                continue;
            }
            if said.is_empty() && comment.ends_with('\n') {
                continue;
            }
            comment.push_str(if said.is_empty() { "\n" } else { said });
            marked.push_str(line);
            marked.push('\n');
            continue;
        }
        if !comment.is_empty() {
            nullable = may_be_null(&comment);
        }
        is_enum = (is_enum || code.starts_with("typedef enum")) && !code.starts_with('}');
        let is_member = line.starts_with("    ") && code.ends_with(';') && !code.contains(')');
        let mut line = line.to_owned();
        if is_enum && code.contains(" = ") {
            line = line.replacen(code, &format!("FARCALL_{code}"), 1);
        } else if is_member && comment.contains("NULL") {
            let name = code.trim_end_matches(';').rsplit(['*', ' ']).next().unwrap_or_default();
            line = mark(&line, name);
        } else if !is_member {
            for name in &nullable {
                line = mark(&line, name);
            }
        }
        if code.contains("(*") && code.starts_with("typedef farcall_error *") {
            line = line.replacen("farcall_error *", "farcall_error *FARCALL_NULLABLE ", 1);
        }
        let is_result = nullable.iter().any(|name| name == "the result");
        if let Some((front, behind)) = line.split_once(" *farcall_")
            && (is_result || front.ends_with("farcall_error"))
            && behind.contains('(')
        {
            line = format!("{front} *FARCALL_NULLABLE farcall_{behind}");
        }
        let line = laid_out(&nested(&line));
        marked.push_str(&line);
        marked.push('\n');
        if code.ends_with(';') || code.is_empty() {
            nullable = may_be_null("");
        }
        comment.clear();
    }
    marked
}

/// The names that a comment lists, and `context`.
fn may_be_null(comment: &str) -> Vec<String> {
    let mut names = vec!["context".to_owned()];
    if let Some((_, list)) = comment.split_once("May be NULL: ") {
        let list = list.split('.').next().unwrap_or_default();
        names.extend(list.split(", ").map(|name| name.trim().to_owned()));
    }
    names.dedup();
    names
}

/// The line with the mark in front of a parameter or a member.
fn mark(line: &str, name: &str) -> String {
    for end in [",", ")", ";"] {
        for front in ["*", " "] {
            let (from, to) = match front {
                "*" => (format!("*{name}{end}"), format!("*FARCALL_NULLABLE {name}{end}")),
                _ => (format!(" {name}{end}"), format!(" FARCALL_NULLABLE {name}{end}")),
            };
            if line.contains(&from) && !line.contains(&format!("FARCALL_NULLABLE {name}{end}")) {
                return line.replacen(&from, &to, 1);
            }
        }
    }
    line.to_owned()
}

/// Clang wants a mark on both levels of a pointer to a pointer. The inner pointer may be NULL: functions that fail store it, and
/// it ends an array.
fn nested(line: &str) -> String {
    let mut line = line.to_owned();
    for (from, to) in [
        (" **", " *FARCALL_NULLABLE *"),
        ("*const *", "*FARCALL_NULLABLE const *"),
        ("farcall_any_function *", "farcall_any_function FARCALL_NULLABLE *"),
    ] {
        if let Some(at) = line.find(from) {
            let behind = line.split_off(at + from.len());
            let outer = if behind.starts_with("FARCALL") { "" } else { "FARCALL_NONNULL " };
            line.truncate(at);
            line = format!("{line}{to}{outer}{behind}");
        }
    }
    line
}

/// The parameters of a long prototype on lines of their own, and all such lines with the same indent.
fn laid_out(line: &str) -> String {
    const COLUMNS_MAX: usize = 110;
    let indented = line.len() - line.trim_start().len();
    if indented > 4 {
        return format!("    {}", line.trim_start());
    }
    match line.rsplit_once('(') {
        Some((front, parameters)) if line.len() > COLUMNS_MAX && line.ends_with(");") => {
            format!("{front}(\n    {}", parameters.replace(", ", ",\n    "))
        }
        _ => line.to_owned(),
    }
}

#[test]
fn the_header_is_what_the_sources_make() {
    let made = made();
    let path = folder().join("farcall.h");
    if std::env::var_os("HEADER_REWRITE").is_some() {
        std::fs::write(&path, &made).expect("a writable tree");
    }
    let committed = std::fs::read_to_string(&path).expect("the committed header");
    assert!(made == committed, "HEADER_REWRITE=1 writes src/ffi/farcall.h anew:\n{made}");
}

#[test]
fn the_header_declares_each_function_once() {
    let header = made();
    let lines = header.lines().filter(|line| !line.trim_start().starts_with("//"));
    let words = lines.flat_map(|line| line.split([' ', '*']));
    let names = words.filter_map(|word| word.split_once('(')).map(|(name, _)| name);
    let mut names: Vec<&str> = names.filter(|name| name.starts_with("farcall_")).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count, "{names:?}");
    assert!(count > 100, "{count} functions");
}

#[test]
fn every_file_of_the_room_is_listed() {
    let mut found = Vec::new();
    for part in ["", "executor/", "process/", "process/orc/", "embed/"] {
        let entries = folder().join(part).read_dir().expect("a folder");
        let names = entries.map(|entry| entry.expect("an entry").file_name());
        let names = names
            .filter_map(|name| name.into_string().ok()?.strip_suffix(".rs").map(str::to_owned));
        found.extend(names.map(|name| format!("{part}{name}")));
    }
    found.retain(|name| !name.ends_with("/mod"));
    found.sort();
    let mut listed: Vec<String> =
        FILES.iter().chain(&OTHERS).map(|name| (*name).to_owned()).collect();
    listed.sort();
    assert_eq!(found, listed);
}

#[test]
fn marks_are_where_comments_say() {
    let header = "// A function. May be NULL: args, on_end.\n\
                  FARCALL_NODISCARD farcall_error *farcall_f(farcall_x *x,\n\
                  \x20                       const void *args,\n\
                  \x20                       farcall_end on_end);\n\n\
                  void farcall_g(const void *args, void *context);\n\n\
                  typedef enum {\n    // One.\n    ONE = 1,\n} farcall_e;\n";
    let due = "// A function. May be NULL: args, on_end.\n\
               FARCALL_NODISCARD farcall_error *FARCALL_NULLABLE farcall_f(farcall_x *x,\n\
               \x20   const void *FARCALL_NULLABLE args,\n\
               \x20   farcall_end FARCALL_NULLABLE on_end);\n\n\
               void farcall_g(const void *args, void *FARCALL_NULLABLE context);\n\n\
               typedef enum {\n    // One.\n    FARCALL_ONE = 1,\n} farcall_e;\n";
    assert_eq!(marked(header), due);
}
