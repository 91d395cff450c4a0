//! Code that depends on the processor lies in files named for it, and each place that chooses among such files does so in one way.
//!
//! Invariant: the checker is a function of a path and a text, and is shown planted violations.

use super::tidy;

/// The processors, as folders and files are named.
const PROCESSORS: [&str; 2] = ["aarch64", "x86_64"];

/// The files that choose, and nothing else there names a processor.
const CHOOSERS: &[&str] = &[
    "bench/src/calls/tiny_code/mod.rs",
    "src/base/types/abi/mod.rs",
    "src/executor/entry/abi/mod.rs",
    "src/executor/entry/unwind_boundary.rs",
    "src/executor/interrupt/mod.rs",
    "src/sys/processor/mod.rs",
];

/// The file that may allow a lint for one processor: calls are interrupted on the other alone, and attributes of a crate stand there.
const LINTS: &str = "src/lib.rs";

/// The lines of a file that name a processor and must not.
fn violations(path: &str, text: &str) -> Vec<String> {
    let is_named_for_one =
        path.split(['/', '.']).any(|part| PROCESSORS.iter().any(|name| part.starts_with(name)));
    if is_named_for_one || path.starts_with("tests/sources/") {
        return Vec::new();
    }
    let word = concat!("target", "_arch");
    let chooses = |line: &str| {
        let mut names = PROCESSORS.iter();
        CHOOSERS.contains(&path)
            && names.any(|name| {
                let rest = line.strip_prefix(&format!("#[cfg_attr({word} = \"{name}\", path = \""));
                rest.and_then(|rest| rest.strip_suffix(".rs\")]"))
                    .is_some_and(|file| file.split('/').any(|part| part == *name))
            })
    };
    let lints = |line: &str| path == LINTS && line == format!("    not({word} = \"x86_64\"),");
    let lines = (1..).zip(text.lines()).filter(|(_, line)| line.contains(word));
    let wrong = lines.filter(|(_, line)| !chooses(line) && !lints(line));
    wrong.map(|(number, line)| format!("{path}:{number}: {line}")).collect()
}

#[test]
fn processors_are_named_in_files_of_their_own() {
    let sources = tidy::sources();
    let found: Vec<String> =
        sources.iter().flat_map(|(path, text)| violations(path, text)).collect();
    assert!(found.is_empty(), "\n{}", found.join("\n"));
    for chooser in CHOOSERS {
        let (_, text) = sources.iter().find(|(path, _)| path == chooser).expect(chooser);
        let lines =
            text.lines().filter(|line| line.starts_with("#[cfg_attr(") && line.contains("_arch"));
        assert_eq!(lines.count(), PROCESSORS.len(), "{chooser} chooses once, for each processor");
    }
}

#[test]
fn planted_names_of_processors_are_found() {
    let found = |path, text: &str| {
        let text = text.replace("ARCH", concat!("target", "_arch"));
        violations(path, &text).len()
    };
    let chooser = CHOOSERS[0];
    assert_eq!(found(chooser, "#[cfg_attr(ARCH = \"x86_64\", path = \"x86_64.rs\")]"), 0);
    assert_eq!(found(chooser, "#[cfg_attr(ARCH = \"aarch64\", path = \"a/aarch64/mod.rs\")]"), 0);
    assert_eq!(found(chooser, "#[cfg_attr(ARCH = \"aarch64\", path = \"x86_64.rs\")]"), 1);
    assert_eq!(found(chooser, "#[cfg(ARCH = \"x86_64\")]\nfn f() {}"), 1);
    assert_eq!(found("src/sys/cpu.rs", "#[cfg_attr(ARCH = \"x86_64\", path = \"x86_64.rs\")]"), 1);
    assert_eq!(found("src/sys/cpu.rs", "let is_x86 = cfg!(ARCH = \"x86_64\");"), 1);
    assert_eq!(found("src/sys/processor/x86_64.rs", "#![cfg(ARCH = \"x86_64\")]"), 0);
    assert_eq!(found("src/executor/entry/abi/aarch64/stubs.rs", "#[cfg(ARCH = \"x86_64\")]"), 0);
}
