//! The pages that users read. Every block of README.md and of the guide is run as a reader would run it, and the names on all
//! pages exist.
//!
//! A block whose first line is a comment with a file's name is written to that file. Where it names an example of the tree, the
//! example has these lines, and .ci/run runs it. A `sh` block is run in the reader's folder. A `text` block right behind it is what
//! that prints; `...` in it stands for anything.
//!
//! Invariant: no block of these pages is passed over, but for the pictures and the lines in [`OTHERWISE`].

mod names;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::testkit::launch::FARCALL;
use crate::testkit::tools;
use tempfile::TempDir;

/// The page whose commands read headers.
const OF_BINDINGS: &str = "src/docs/guide/bind.md";

/// The pages whose blocks are run, one behind the other in one folder, as they are read.
const PAGES: [&str; 11] = [
    "README.md",
    "src/docs/guide.md",
    "src/docs/guide/isolate.md",
    OF_BINDINGS,
    "src/docs/guide/programs.md",
    "src/docs/guide/executors.md",
    "src/docs/guide/memory.md",
    "src/docs/guide/calls.md",
    "src/docs/guide/crashes.md",
    "src/docs/guide/code.md",
    "src/docs/guide/languages.md",
];

/// Lines that are not run as they are: the line, what is run in its place, and why.
const OTHERWISE: [(&str, &str, &str); 6] = [
    (
        "cargo run --profile demo -- demo",
        "farcall demo --calls 1000 --seconds 0",
        "an optimized build takes minutes; .ci/run does it",
    ),
    ("cargo test", "cargo test --help >/dev/null", "this is one of those tests"),
    (
        "cargo install farcall-cli",
        "command -v farcall farcall-executor >/dev/null",
        "not published yet; .ci/run installs it from here",
    ),
    (
        "(cd \"$FARCALL\" && cargo build --release -p farcall-ffi)",
        "(cd \"$FARCALL\" && cargo build --quiet --offline --locked -p farcall-ffi --target-dir \"$TARGET\")",
        "a release build takes minutes",
    ),
    (
        "cc -O2 -Wall executor.c -I\"$FARCALL/src/ffi\" \"$FARCALL/target/release/libfarcall_ffi.a\" -lpthread -ldl -lm -o executor",
        "cc -O2 -Wall executor.c -I\"$FARCALL/src/ffi\" \"$TARGET/debug/libfarcall_ffi.a\" -lpthread -ldl -lm -o executor",
        "the library of the line before",
    ),
    (
        "c++ -O2 -Wall executor.cpp -I\"$FARCALL/src/ffi\" \"$FARCALL/target/release/libfarcall_ffi.a\" -lpthread -ldl -lm -o executor",
        "c++ -O2 -Wall executor.cpp -I\"$FARCALL/src/ffi\" \"$TARGET/debug/libfarcall_ffi.a\" -lpthread -ldl -lm -o executor",
        "the library of the line before",
    ),
];

/// Where the reader's programs are built.
fn target() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("documents")
}

/// The text between fences.
struct Block {
    page: &'static str,
    line: usize,
    language: String,
    text: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the root of the tree")
}

fn blocks(page: &'static str, text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for (line, content) in (1..).zip(text.lines()) {
        match (content.strip_prefix("```"), &mut open) {
            (Some(info), None) => {
                let language = info.split(',').next().unwrap_or_default().to_owned();
                open = Some(Block { page, line, language, text: String::new() });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some(block)) => {
                block.text.push_str(content);
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "{page}: a block without an end");
    blocks
}

/// The folder of a reader with nothing but the published crates and commands, which come from this tree.
struct Reader {
    home: TempDir,
    /// Where the reader's shell is.
    at: PathBuf,
    /// Programs in Rust that were written and not run yet.
    not_run: Vec<String>,
    ran: usize,
}

impl Reader {
    fn new() -> Self {
        let home = tempfile::tempdir().expect("a folder");
        let target = target();
        let config = format!(
            "[net]\noffline = true\n[cargo-new]\nvcs = \"none\"\n[build]\ntarget-dir = {target:?}\n\
             [patch.crates-io]\nfarcall = {{ path = {:?} }}\n",
            root()
        );
        fs::create_dir(home.path().join(".cargo")).expect("a folder");
        fs::write(home.path().join(".cargo/config.toml"), config).expect("written");
        let at = home.path().to_path_buf();
        Self { home, at, not_run: Vec::new(), ran: 0 }
    }

    /// Does what a block shows; what it prints is due, when the page shows that.
    fn follow(&mut self, block: &Block, due: Option<&str>) {
        match block.language.as_str() {
            "sh" => self.run(block, due),
            "text" => return,
            _ => self.write(block),
        }
        self.ran += 1;
    }

    fn write(&mut self, block: &Block) {
        let Block { page, line, language, text } = block;
        let first = text.lines().next().unwrap_or_default();
        let name = first.strip_prefix("// ").or_else(|| first.strip_prefix("# "));
        let name = name.filter(|name| !name.contains(' '));
        let name = name.unwrap_or_else(|| panic!("{page}:{line}: the first line names no file"));
        if name.contains("examples/") {
            let example = fs::read_to_string(root().join(name)).expect("an example of the tree");
            assert!(
                is_part(text.split_once('\n').expect("lines").1, &example),
                "{page}:{line}: not in {name}"
            );
            return;
        }
        let path = self.at.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        if language == "toml" {
            let made = fs::read_to_string(&path).expect("what cargo new has made");
            let head = made.split("[dependencies]").next().unwrap_or_default();
            fs::write(&path, format!("{head}{text}")).expect("written");
            // The versions that this machine has.
            fs::copy(root().join("Cargo.lock"), self.at.join("Cargo.lock")).expect("copied");
            return;
        }
        fs::write(&path, text).expect("written");
        match language.as_str() {
            "rust" => self.not_run.push(text.clone()),
            "c" | "cpp" => {
                let flags = ["-Wall", "-Wextra", "-Werror", "-I.", "-fsyntax-only", name];
                let mut cc = Command::new(if language == "c" { "cc" } else { "c++" });
                cc.args(flags).arg("-I").arg(root().join("src/ffi"));
                let output = cc.current_dir(&self.at).output().expect("cc");
                let complaint = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success(), "{page}:{line}: {complaint}");
            }
            other => panic!("{page}:{line}: a block of {other}"),
        }
    }

    fn run(&mut self, block: &Block, due: Option<&str>) {
        let Block { page, line, text, .. } = block;
        let mut script = "set -e\n".to_owned();
        for command in text.lines() {
            let said = command.split(" #").next().unwrap_or_default().trim_end();
            let other = OTHERWISE.iter().find(|(line, ..)| *line == said);
            script.push_str(other.map_or(command, |(_, other, _)| other));
            script.push('\n');
            let program = said.split_once("cargo run").map(|(_, arguments)| {
                match arguments.split_once("--bin ") {
                    Some((_, name)) => {
                        format!("// src/bin/{}.rs\n", name.split(' ').next().unwrap_or_default())
                    }
                    None => "// src/main.rs\n".to_owned(),
                }
            });
            self.not_run
                .retain(|text| program.as_ref().is_none_or(|first| !text.starts_with(first)));
        }
        let where_to = self.home.path().join("where");
        script.push_str("pwd -P >\"$WHERE\"\n");
        let commands = Path::new(FARCALL).parent().expect("a folder");
        let path = format!("{}:{}", commands.display(), std::env::var("PATH").unwrap_or_default());
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).current_dir(&self.at).env("PATH", path).env("WHERE", &where_to);
        shell.env("FARCALL", root()).env("TARGET", target());
        // Programs that run once are built for the least time.
        shell.envs([("CARGO_PROFILE_DEV_OPT_LEVEL", "0"), ("CARGO_PROFILE_DEV_DEBUG", "0")]);
        shell.env("CARGO_INCREMENTAL", "0");
        shell.env_remove("CARGO_TARGET_DIR").env_remove("FARCALL_EXECUTOR");
        let output = shell.output().expect("a shell");
        let (printed, complaint) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(
            output.status.success(),
            "{page}:{line}: {}\n{printed}\n{complaint}",
            output.status
        );
        if let Some(due) = due {
            assert!(
                is_printed(due, &printed),
                "{page}:{line}: printed\n{printed}\nin place of\n{due}\n{complaint}"
            );
        }
        self.at = fs::read_to_string(where_to).expect("the shell's folder").trim_end().into();
    }
}

/// True where libclang can be loaded, by which `farcall bind` reads headers.
fn has_libclang(part: &str) -> bool {
    let header = tempfile::Builder::new().suffix(".h").tempfile().expect("a file");
    let output = Command::new(FARCALL).arg("bind").arg(header.path()).output().expect("farcall");
    let complaint = String::from_utf8_lossy(&output.stderr);
    let is_missing = complaint.contains("libclang cannot be loaded");
    if is_missing {
        tools::skip("libclang", &format!("not installed: {part}"));
    }
    !is_missing
}

/// True when the lines of `part` follow each other in `whole`, further in or not.
fn is_part(part: &str, whole: &str) -> bool {
    let lines =
        |text: &str| text.lines().map(|line| format!("{}\n", line.trim())).collect::<String>();
    !part.trim().is_empty() && lines(whole).contains(&lines(part))
}

/// True when each line that is due was printed, `...` being anything.
fn is_printed(due: &str, printed: &str) -> bool {
    due.lines().count() == printed.lines().count()
        && due.lines().zip(printed.lines()).all(|(due, line)| is_line(due, line))
}

fn is_line(due: &str, line: &str) -> bool {
    let Some((front, rest)) = due.split_once("...") else { return due == line };
    line.strip_prefix(front).is_some_and(|line| {
        line.char_indices().any(|(at, _)| is_line(rest, &line[at..])) || rest.is_empty()
    })
}

#[test]
fn every_block_of_readme_and_guide_runs() {
    let mut reader = Reader::new();
    for page in PAGES {
        if page == OF_BINDINGS && !has_libclang("the page of bindings") {
            continue;
        }
        let text = fs::read_to_string(root().join(page)).expect("a page");
        let blocks = blocks(page, &text);
        for (at, block) in blocks.iter().enumerate() {
            let next = blocks.get(at + 1).filter(|next| next.language == "text");
            reader.follow(block, next.map(|next| next.text.as_str()));
        }
        assert!(reader.not_run.is_empty(), "{page}: written and not run: {:?}", reader.not_run);
    }
    println!("documents: {} cases", reader.ran);
    assert!(reader.ran >= 20, "only {} blocks", reader.ran);
}

#[test]
fn the_first_program_of_the_readme_is_short() {
    let text = fs::read_to_string(root().join("README.md")).expect("a page");
    assert!(text.lines().count() <= 140, "README.md has {} lines", text.lines().count());
    let blocks = blocks("README.md", &text);
    let program = blocks.iter().find(|block| block.language == "rust").expect("a program");
    assert!(program.text.lines().count() < 15, "{}", program.text);
}

#[test]
fn a_part_of_an_example_is_found_and_a_changed_one_is_not() {
    let example = "fn main() {\n    let a = 1;\n    let b = 2;\n}\n";
    assert!(is_part("let a = 1;\nlet b = 2;\n", example));
    for other in ["let a = 1;\n}\n", "let b = 3;\n", "let a = 1;\n\nlet b = 2;\n", "\n"] {
        assert!(!is_part(other, example), "{other}");
    }
}

#[test]
fn the_due_output_is_compared_line_by_line() {
    for (due, printed, is_right) in [
        ("a\n", "a\n", true),
        ("a\n", "b\n", false),
        ("a\n", "a\nb\n", false),
        ("a ... c\n", "a b c\n", true),
        ("a ... c\n", "a b d\n", false),
        ("a ...\n", "a \n", true),
        ("...a...\n", "bab\n", true),
        ("...a...\n", "bb\n", false),
    ] {
        assert_eq!(is_printed(due, printed), is_right, "{due:?} {printed:?}");
    }
}
