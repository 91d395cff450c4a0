//! Programs of others that go well with farcall, and where its own executor is.

use std::env;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use super::file_of_kernel;
use super::row::{Mark, Row};

pub(super) fn rows() -> Vec<Row> {
    vec![
        tool("C compiler", &["cc"], "farcall watch compiles nothing"),
        tool("clang", &["clang"], "none of LLVM's objects; those of cc are as good"),
        tool("lld", &["ld.lld"], "farcall bench --link compares with ld"),
        tool(
            "llvm-jitlink",
            &["llvm-jitlink"],
            "farcall bench --link has no row for LLVM's own linker",
        ),
        tool("gdb or lldb", &["gdb", "lldb"], "run --gdb has no reader"),
        perf(),
        profiled(),
        executor(),
    ]
}

/// A program that is found by any of these names, or by one of them with a version behind it.
fn tool(name: &'static str, names: &[&str], without: &'static str) -> Row {
    let found = names.iter().find_map(|name| on_path(name)).or_else(|| {
        let versions = (10..=30)
            .rev()
            .flat_map(|version| names.iter().map(move |name| format!("{name}-{version}")));
        versions.filter_map(|name| on_path(&name)).next()
    });
    let found = found.map(|path| path.display().to_string());
    Row::found(name, found.ok_or_else(|| "not found".to_owned()), without)
}

fn on_path(name: &str) -> Option<PathBuf> {
    let folders = env::var_os("PATH")?;
    env::split_paths(&folders).map(|folder| folder.join(name)).find(is_program)
}

fn is_program(path: &PathBuf) -> bool {
    std::fs::metadata(path)
        .is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
}

fn perf() -> Row {
    let without = "run --perf-map and --jitdump have no reader";
    Row::found(
        "perf",
        on_path("perf")
            .map(|path| path.display().to_string())
            .ok_or_else(|| "not found".to_owned()),
        without,
    )
}

/// Whether this user may profile.
fn profiled() -> Row {
    let without = "perf counts nothing, or nothing of the kernel";
    let level = file_of_kernel("/proc/sys/kernel/perf_event_paranoid");
    let (mark, value) = match level.as_deref().map(str::parse::<i32>) {
        Some(Ok(level)) if level <= 1 || nix::unistd::geteuid().is_root() => {
            (Mark::Good, format!("perf_event_paranoid={level}"))
        }
        Some(Ok(2)) => (Mark::Less, "perf_event_paranoid=2: not the kernel".to_owned()),
        Some(Ok(level)) => (Mark::Missing, format!("perf_event_paranoid={level}: root only")),
        _ => (Mark::Unknown, "unknown: no perf_event_paranoid".to_owned()),
    };
    Row::new("perf events", mark, value, without)
}

/// Where programs that use the library find an executor; this command is its own.
fn executor() -> Row {
    let without = "programs beside this one must name an executor, or be their own";
    if let Some(named) = env::var_os("FARCALL_EXECUTOR") {
        let named = PathBuf::from(named);
        let found = match is_program(&named) {
            true => Ok(format!("FARCALL_EXECUTOR={}", named.display())),
            false => Err(format!("FARCALL_EXECUTOR={}: no program", named.display())),
        };
        return Row::found("executor program", found, without);
    }
    match env::current_exe().map(|path| path.with_file_name("farcall-executor")) {
        Ok(path) if is_program(&path) => {
            Row::new("executor program", Mark::Good, path.display().to_string(), without)
        }
        Ok(_) => Row::new(
            "executor program",
            Mark::Less,
            "farcall itself; no farcall-executor beside",
            without,
        ),
        Err(error) => Row::new(
            "executor program",
            Mark::Missing,
            format!("this program is not found: {error}"),
            without,
        ),
    }
}
