//! Tells the command which version and commit it is: `0.1.0 (abc1234)`, and the commit alone.
//!
//! The commit comes from the record in a packaged crate, or else from git, if git tracks this file. Without both the
//! version has no commit. Nothing here fails the build.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Digits of a commit in the version.
const DIGITS: usize = 7;

fn main() {
    let version = env!("CARGO_PKG_VERSION");
    let full = match packaged_commit().or_else(checked_out_commit) {
        Some(commit) => {
            println!("cargo::rustc-env=FARCALL_COMMIT={commit}");
            format!("{version} ({commit})")
        }
        None => version.to_owned(),
    };
    println!("cargo::rustc-env=FARCALL_VERSION={full}");
    println!("cargo::rerun-if-changed=build.rs");
}

/// The commit in the file that `cargo package` adds to a crate.
fn packaged_commit() -> Option<String> {
    let record = fs::read_to_string(".cargo_vcs_info.json").ok()?;
    let (_, behind) = record.split_once("\"sha1\"")?;
    short(behind.split('"').nth(1)?)
}

/// The commit of the repository that tracks this file. A crate that was unpacked inside of another repository is not tracked.
fn checked_out_commit() -> Option<String> {
    git(&["ls-files", "--error-unmatch", "build.rs"])?;
    // Git writes this file with each commit and each checkout.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
    if Path::new(&log).exists() {
        println!("cargo::rerun-if-changed={log}");
    }
    short(&git(&["rev-parse", "HEAD"])?)
}

fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

fn short(commit: &str) -> Option<String> {
    let is_hash = commit.len() >= DIGITS && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hash.then(|| commit[..DIGITS].to_owned())
}
