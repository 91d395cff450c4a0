//! The command's texts about itself: help, version, completions and manual pages.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::testkit::launch::FARCALL;
use crate::testkit::process::{Ended, run_to_end};
use crate::testkit::tools;

const SHELLS: [&str; 5] = ["bash", "elvish", "fish", "powershell", "zsh"];
const COMMANDS: [&str; 10] =
    ["run", "watch", "demo", "bench", "bind", "top", "doctor", "header", "completions", "man"];

fn farcall(args: &[&str]) -> Ended {
    let mut command = Command::new(FARCALL);
    command.args(args);
    run_to_end(command, b"")
}

/// The output of `farcall`, which must end well.
fn printed(args: &[&str]) -> String {
    let ended = farcall(args);
    assert_eq!((ended.status, ended.complaint().as_str()), (0, ""), "{args:?}: {ended}");
    String::from_utf8(ended.stdout).expect("text")
}

/// The exit codes at the end of a help text, a line each.
fn exit_codes(help: &str) -> Vec<&str> {
    let (_, codes) = help.split_once("\nExit codes:").unwrap_or_else(|| panic!("no codes: {help}"));
    let is_code = |line: &&str| line.trim_start().starts_with(|c: char| c.is_ascii_digit());
    codes.lines().map(str::trim).filter(is_code).collect()
}

#[test]
fn the_help_of_each_command_ends_with_its_exit_codes() {
    let help = printed(&["--help"]);
    let listed: Vec<&str> = help.lines().filter_map(|line| line.strip_prefix("  ")).collect();
    for command in COMMANDS {
        let is_listed = listed.iter().any(|line| line.split_whitespace().next() == Some(command));
        assert!(is_listed, "{command}: {help}");
        let of_command = printed(&[command, "--help"]);
        let codes = exit_codes(&of_command);
        assert!(codes.iter().any(|line| line.starts_with("125 ")), "{command}: {codes:?}");
        let all = exit_codes(&help);
        let code = |line: &str| line.split_whitespace().next().map(str::to_owned);
        // 130 is 128 + SIGINT.
        let known = |line: &&&str| {
            code(line).as_deref() == Some("130")
                || all.iter().any(|other| code(other) == code(line))
        };
        assert_eq!(
            codes.iter().filter(known).count(),
            codes.len(),
            "{command}: {codes:?}, {all:?}"
        );
    }
}

#[test]
fn completions_name_every_command() {
    for shell in SHELLS {
        let script = printed(&["completions", shell]);
        for word in COMMANDS.iter().chain(&["json", "timeout"]) {
            assert!(script.contains(word), "{shell}: {word} is missing in {script}");
        }
    }
    let unknown = farcall(&["completions", "abacus"]);
    assert_eq!((unknown.status, unknown.stdout.len()), (125, 0), "{unknown}");
    assert!(unknown.complaint().contains("bash, elvish, fish, powershell, zsh"), "{unknown}");
}

#[test]
fn bash_completes_commands_and_options() {
    for (typed, expected) in [("do", "doctor"), ("run --js", "--json"), ("completions fi", "fish")]
    {
        let script = format!(
            "{}\nCOMP_WORDS=(farcall {typed}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n\
             _farcall farcall \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD-1]}}\"\n\
             echo \"${{COMPREPLY[@]}}\"",
            printed(&["completions", "bash"])
        );
        let mut bash = Command::new("bash");
        bash.args(["--norc", "-c", &script]);
        let ended = run_to_end(bash, b"");
        let completed = String::from_utf8_lossy(&ended.stdout).trim().to_owned();
        assert_eq!(completed, expected, "farcall {typed}: {ended}");
    }
}

#[test]
fn a_manual_page_has_the_exit_codes_of_the_help() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let pages = folder.path().join("share/man1");
    assert_eq!(printed(&["man", pages.to_str().expect("UTF-8")]), "");
    let written = fs::read_dir(&pages).expect("made").count();
    assert_eq!(written, COMMANDS.len() + 2, "farcall, its commands and farcall-executor");
    let page = |name: &str| fs::read_to_string(pages.join(format!("{name}.1"))).expect("a page");
    assert_eq!(page("farcall"), printed(&["man"]));
    let commands = COMMANDS.iter().map(|name| (format!("farcall-{name}"), vec![*name, "--help"]));
    for (name, help) in commands.chain([("farcall".to_owned(), vec!["--help"])]) {
        let page = page(&name);
        assert!(page.contains(&format!(".TH {name} 1 ")), "{name}: {page}");
        for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS"] {
            assert!(page.contains(&format!("\n.SH {section}\n")), "{name}: {section}: {page}");
        }
        let (_, status) = page.split_once("\n.SH \"EXIT STATUS\"\n").expect("exit codes");
        let lines: Vec<String> = status.lines().map(|line| line.trim().replace('\\', "")).collect();
        for code in exit_codes(&printed(&help)) {
            assert!(lines.iter().any(|line| line == code), "{name}: {code}: {status}");
        }
    }
    assert!(page("farcall").contains("farcall\\-doctor(1)"));
}

/// P17.
#[test]
fn pages_and_help_name_values_and_print_no_back_quotes() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    printed(&["man", folder.path().to_str().expect("UTF-8")]);
    let synopsis = |name: &str| {
        let page = fs::read_to_string(folder.path().join(format!("{name}.1"))).expect("a page");
        assert!(!page.replace("\\(ga", "`").contains('`'), "{name}: {page}");
        let (_, rest) = page.split_once("\n.SH SYNOPSIS\n").expect("a synopsis");
        let synopsis = rest.split("\n.SH ").next().unwrap_or_default();
        synopsis.replace("\\fB", "").replace("\\fR", "").replace('\\', "")
    };
    let run = synopsis("farcall-run");
    for part in ["[-l NAME]...", "[--timeout DUR]", "[--gdb]", " FILE...", "[-- ARGS]..."] {
        assert!(run.contains(part), "{part} is missing: {run}");
    }
    assert!(synopsis("farcall").contains("farcall [-h|--help] [-V|--version] COMMAND"));
    let executor = synopsis("farcall-executor");
    for form in ["stdio", "fd=READ,WRITE", "tcp:listen=:PORT [token-file=PATH] [wait-seconds=N]"] {
        assert!(executor.contains(&format!("farcall-executor {form}")), "{form}: {executor}");
    }
    for name in COMMANDS {
        synopsis(&format!("farcall-{name}"));
        let help = printed(&[name, "--help"]);
        assert!(!help.contains('`'), "{help}");
    }
}

#[test]
fn a_page_that_cannot_be_written_is_an_error() {
    for args in [&["man"][..], &["completions", "zsh"], &["doctor"]] {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", "exec \"$@\" >/dev/full", "sh", FARCALL]).args(args);
        let ended = run_to_end(shell, b"");
        let line = "farcall: standard output: No space left on device (os error 28)\n";
        assert_eq!((ended.status, ended.complaint().as_str()), (125, line), "{args:?}");
    }
    let ended = farcall(&["man", "/dev/null/pages"]);
    assert!(ended.status == 125 && ended.complaint().contains("/dev/null/pages: "), "{ended}");
}

#[test]
fn the_version_has_the_commit() {
    let version = printed(&["--version"]);
    let numbered = concat!("farcall ", env!("CARGO_PKG_VERSION"));
    let rest = version.trim_end().strip_prefix(numbered).expect("the version of the package");
    if !rest.is_empty() {
        let commit = rest.strip_prefix(" (").and_then(|rest| rest.strip_suffix(')'));
        let is_commit =
            |commit: &str| commit.len() == 7 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
        assert!(commit.is_some_and(is_commit), "{version}");
    }
}

/// The version that the build script gives to a package in this folder.
fn version_of_build(script: &Path, folder: &Path, path: &str) -> String {
    let mut command = Command::new(script);
    command.current_dir(folder).env("PATH", path);
    let ended = run_to_end(command, b"");
    assert_eq!(ended.status, 0, "{ended}");
    let text = String::from_utf8(ended.stdout).expect("text");
    let version =
        text.lines().find_map(|line| line.strip_prefix("cargo::rustc-env=FARCALL_VERSION="));
    version.unwrap_or_else(|| panic!("no version: {text}")).to_owned()
}

/// The build script of the command, compiled for a package of version 1.2.3.
fn build_script(folder: &Path) -> PathBuf {
    let script = folder.join("build-script");
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.args(["--edition=2024", "-o"]).arg(&script);
    rustc.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/build.rs")).env("CARGO_PKG_VERSION", "1.2.3");
    let ended = run_to_end(rustc, b"");
    assert_eq!(ended.status, 0, "{ended}");
    script
}

#[test]
fn the_commit_comes_from_the_package_or_git_or_is_left_out() {
    let folder = tempfile::tempdir().expect("a folder for the test");
    let script = build_script(folder.path());
    let package = folder.path().join("package");
    fs::create_dir(&package).expect("a folder in it");
    fs::write(package.join("build.rs"), "").expect("written");
    let path = std::env::var("PATH").expect("programs");
    assert_eq!(version_of_build(&script, &package, &path), "1.2.3", "no repository");

    if !tools::is_here("git", "the version of a build has no commit") {
        return;
    }
    let git = |args: &[&str]| {
        let mut git = Command::new("git");
        git.current_dir(folder.path())
            .args(["-c", "user.name=a", "-c", "user.email=a@b"])
            .args(args);
        let ended = run_to_end(git, b"");
        assert_eq!(ended.status, 0, "{ended}");
        String::from_utf8(ended.stdout).expect("text").trim().to_owned()
    };
    git(&["init", "--quiet"]);
    git(&["commit", "--quiet", "--allow-empty", "--message", "first"]);
    let unpacked = "unpacked in the repository of another project";
    assert_eq!(version_of_build(&script, &package, &path), "1.2.3", "{unpacked}");
    git(&["add", "package/build.rs"]);
    git(&["commit", "--quiet", "--message", "second"]);
    let commit = git(&["rev-parse", "HEAD"]);
    assert_eq!(version_of_build(&script, &package, &path), format!("1.2.3 ({})", &commit[..7]));
    assert_eq!(version_of_build(&script, &package, "/nowhere"), "1.2.3", "git is not installed");

    let record = "{ \"git\": { \"sha1\": \"0123456789abcdef0123456789abcdef01234567\" } }";
    fs::write(package.join(".cargo_vcs_info.json"), record).expect("written");
    assert_eq!(version_of_build(&script, &package, "/nowhere"), "1.2.3 (0123456)");
}
