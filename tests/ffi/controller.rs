//! The controller's side of the C ABI, by programs in C that know the library by the header only.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::{library, root, run, scratch, tools};

/// The compilers and standards, of which those that are installed compile each program.
pub(super) const COMPILERS: [(&str, &str); 4] =
    [("gcc", "-std=c11"), ("gcc", "-std=c17"), ("clang", "-std=c11"), ("clang", "-std=c17")];

const WARNINGS: [&str; 6] = ["-O1", "-g", "-Wall", "-Wextra", "-pedantic", "-Werror"];

/// The parts of `control.c`, which it prints when they are done.
const PARTS: [&str; 17] = [
    "versions",
    "lives",
    "confines",
    "publishes",
    "calls",
    "pipelines",
    "dylibs",
    "links",
    "functions",
    "handlers",
    "regions",
    "memories",
    "forks",
    "offers",
    "threads",
    "closes",
    "alone",
];

/// The output of `attach.c`: the ways by which it has attached.
const ATTACHED: &str = "socket\npipes\nlane\n";

pub(super) fn is_installed(compiler: &str) -> bool {
    tools::is_here(compiler, "no program is compiled by it")
}

/// A program in C, of this source. Tests that run at the same time give different options, which name the file.
pub(super) fn compiled(source: &str, compiler: &str, options: &[&str]) -> Option<PathBuf> {
    let name = format!("{source}-{compiler}{}", options.concat()).replace(['=', ',', '/'], "-");
    let program = scratch().join(name);
    let mut command = Command::new(compiler);
    command.args(WARNINGS).args(options).arg("-I").arg(root().join("src/ffi"));
    command.arg(root().join(format!("tests/sources/{source}.c"))).arg(library());
    command.arg("-o").arg(&program).args(["-lpthread", "-ldl", "-lm"]);
    if options.iter().any(|option| option.starts_with("-fsanitize")) {
        // The sanitizer may not be installed.
        let output = command.output().expect("a compiler");
        return output.status.success().then_some(program);
    }
    run(&mut command);
    Some(program)
}

/// The paths of the objects that the programs link: of `controlled.c`, an archive of another one, and that object.
fn objects() -> &'static [PathBuf; 3] {
    static OBJECTS: OnceLock<[PathBuf; 3]> = OnceLock::new();
    OBJECTS.get_or_init(|| {
        let [first, archive, late] =
            ["controlled.o", "late.a", "controlled_late.o"].map(|name| scratch().join(name));
        for (source, object) in [("controlled", &first), ("controlled_late", &late)] {
            let mut gcc = Command::new("gcc");
            gcc.args(["-O1", "-fPIC", "-Wall", "-Wextra", "-Werror", "-c", "-o"]).arg(object);
            gcc.arg("-I").arg(root().join("src/executor/include"));
            run(gcc.arg(root().join(format!("tests/sources/{source}.c"))));
        }
        run(Command::new("ar").arg("rcs").arg(&archive).arg(&late));
        [first, archive, late]
    })
}

/// The output of a program that must end well.
pub(super) fn printed(command: &mut Command) -> String {
    if command.get_envs().all(|(name, _)| name != "FARCALL_EXECUTOR") {
        command.env_remove("FARCALL_EXECUTOR");
    }
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let [said, complaint] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert!(output.status.success(), "{command:?}: {}\n{said}\n{complaint}", output.status);
    said
}

/// Runs `control.c`, and compares the parts that it has done.
fn control(command: &mut Command) {
    let said = printed(command.args(objects()));
    let done: Vec<&str> = said.lines().filter(|line| PARTS.contains(line)).collect();
    assert_eq!(done, PARTS, "{said}");
    assert!(said.contains("two\nwords\n"), "the linked program has printed its arguments: {said}");
}

#[test]
fn a_program_in_c_controls_executors() {
    let mut programs = 0;
    for (compiler, standard) in COMPILERS {
        if is_installed(compiler) {
            control(&mut Command::new(
                compiled("control", compiler, &[standard]).expect("a program"),
            ));
            programs += 1;
        }
    }
    assert!(programs >= 2, "gcc is installed");
    println!("control.c: {programs} cases");
}

#[test]
fn a_program_in_c_attaches_to_sessions() {
    let mut programs = 0;
    for (compiler, standard) in COMPILERS {
        if is_installed(compiler) {
            let program = compiled("attach", compiler, &[standard]).expect("a program");
            assert_eq!(printed(&mut Command::new(program)), ATTACHED);
            programs += 1;
        }
    }
    assert!(programs >= 2, "gcc is installed");
    println!("attach.c: {programs} cases");
}

#[test]
fn eight_threads_call_until_the_session_is_closed() {
    let program = compiled("control", "gcc", &["-std=c11", "-DTHREADS_ONLY"]).expect("a program");
    let said = printed(Command::new(program).args(objects()).arg("threads"));
    assert_eq!(said, "threads\n");
    println!("8 threads, each {} calls", std::env::var("CALLS").unwrap_or("2000".to_owned()));
}

#[test]
fn the_header_has_the_version_of_the_crate() {
    let numbers = env!("CARGO_PKG_VERSION").split('.').map(|part| part.parse::<u32>());
    let numbers = numbers.map(|number| number.expect("a number"));
    let due = numbers.fold(0, |all, number| all << 8 | number);
    assert_eq!(farcall_ffi::FARCALL_VERSION, due);
}

#[test]
fn wrong_arguments_cost_an_error_and_nothing_else() {
    for (compiler, standard) in COMPILERS {
        if is_installed(compiler) {
            compiled("misuse", compiler, &[standard]);
        }
    }
    let program = compiled("misuse", "gcc", &["-std=c11"]).expect("a program");
    let count = std::env::var("MISUSE_CALLS").unwrap_or_else(|_| "5000".to_owned());
    for seed in 1..=4 {
        let mut command = Command::new(&program);
        let said = printed(command.arg(&objects()[0]).args([&seed.to_string(), &count]));
        assert!(said.ends_with("random calls done\n"), "{said}");
    }
    println!("misuse.c: 4 seeds with {count} calls each");
}

/// The functions that the header declares.
pub(super) fn declared() -> BTreeSet<String> {
    let header = std::fs::read_to_string(root().join("src/ffi/farcall.h")).expect("the header");
    let code: String = header
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .flat_map(|line| [line, "\n"])
        .collect();
    let words = code.split(|c: char| !c.is_alphanumeric() && !"_(".contains(c));
    let called = words.filter_map(|word| word.split_once('(').map(|(name, _)| name));
    called.filter(|name| name.starts_with("farcall_")).map(str::to_owned).collect()
}

/// The functions of the header that these sources call.
fn called(sources: &[&str]) -> BTreeSet<String> {
    let text = |name: &&str| {
        std::fs::read_to_string(root().join(format!("tests/sources/{name}.c"))).expect("a source")
    };
    let text: String = sources.iter().map(text).collect();
    declared().into_iter().filter(|name| text.contains(&format!("{name}("))).collect()
}

#[test]
fn the_programs_in_c_use_every_function() {
    let declared = declared();
    assert!(declared.len() > 100, "{declared:?}");
    for sources in [&["control", "model", "places", "attach", "embed", "poll"][..], &["misuse"]] {
        let called = called(sources);
        let missing: Vec<&String> = declared.difference(&called).collect();
        assert!(missing.is_empty(), "{sources:?} call no {missing:?}");
    }
    println!("the C ABI: {} functions", declared.len());
}

#[test]
fn sanitizers_find_nothing_in_the_controllers_process() {
    let options = ["-std=c17", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
    let Some(program) = compiled("control", "gcc", &options) else {
        tools::skip("gcc's sanitizers", "not installed (libasan and libubsan)");
        return;
    };
    // The executor is a program without them.
    let executor = compiled("control", "gcc", &["-std=c11", "-DEXECUTOR"]).expect("a program");
    control(Command::new(program).env("FARCALL_EXECUTOR", &executor));
    let program = compiled("misuse", "gcc", &options).expect("a program");
    let mut command = Command::new(program);
    command.env("FARCALL_EXECUTOR", &executor);
    // The program asks for more memory than there is.
    command.env("ASAN_OPTIONS", "allocator_may_return_null=1");
    let said = printed(command.arg(&objects()[0]).args(["9", "10000"]));
    assert!(said.ends_with("random calls done\n"), "{said}");
    let program = compiled("attach", "gcc", &options).expect("a program");
    assert_eq!(printed(&mut Command::new(program)), ATTACHED);
    println!("sanitizers: 3 executions");
}

/// The version of valgrind, if it is installed.
pub(super) fn valgrind() -> Option<[u32; 2]> {
    let output = Command::new("valgrind").arg("--version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let mut numbers = text.trim().strip_prefix("valgrind-")?.split('.').map(str::parse);
    Some([numbers.next()?.ok()?, numbers.next()?.ok()?])
}

/// The command that runs a program under memcheck, which fails at an error or a lost block.
pub(super) fn memcheck(program: &Path) -> Command {
    let mut command = Command::new("valgrind");
    command.args(["--quiet", "--error-exitcode=99", "--leak-check=full"]);
    command.args(["--errors-for-leak-kinds=definite", "--show-leak-kinds=definite"]);
    command.arg(program);
    command
}

#[test]
fn memcheck_finds_nothing() {
    let Some(version) = valgrind() else {
        tools::skip("valgrind", "not installed: memcheck does not run");
        return;
    };
    let misuse = compiled("misuse", "gcc", &["-std=c11", "-DMEMCHECK"]).expect("a program");
    printed(memcheck(&misuse).arg("NULL"));
    let attach = compiled("attach", "gcc", &["-std=c11", "-DMEMCHECK"]).expect("a program");
    assert_eq!(printed(&mut memcheck(&attach)), ATTACHED);
    let program = compiled("control", "gcc", &["-std=c11", "-DMEMCHECK"]).expect("a program");
    if version < VALGRIND_MIN {
        for part in ["versions", "alone"] {
            let said = printed(memcheck(&program).args(objects()).arg(part));
            assert_eq!(said, format!("{part}\n"));
        }
        println!(
            "memcheck: 4 executions; valgrind {version:?} runs no program that starts executors"
        );
        return;
    }
    // Executors are processes of their own, which run outside of valgrind.
    control(&mut memcheck(&program));
    let said = printed(memcheck(&misuse).arg(&objects()[0]).args(["9", "500"]));
    assert!(said.ends_with("random calls done\n"), "{said}");
    let program = compiled_cpp("control", "g++", &["-std=c++17", "-DMEMCHECK"]).expect("a program");
    let said = printed(memcheck(&program).args(objects()));
    assert!(said.ends_with("done\n"), "{said}");
    println!("memcheck: 5 executions, of programs that start executors");
}

/// The oldest valgrind that was tried and has `pidfd_open`, without which no executor starts.
pub(super) const VALGRIND_MIN: [u32; 2] = [3, 24];

/// The compilers and options for programs in C++.
pub(super) const CPP: [(&str, &[&str]); 6] = [
    ("g++", &["-std=c++17"]),
    ("g++", &["-std=c++20"]),
    ("g++", &["-std=c++20", "-fno-exceptions"]),
    ("clang++", &["-std=c++17"]),
    ("clang++", &["-std=c++17", "-fno-exceptions"]),
    ("clang++", &["-std=c++20"]),
];

/// A program in C++, of this source.
pub(super) fn compiled_cpp(source: &str, compiler: &str, options: &[&str]) -> Option<PathBuf> {
    let name = format!("{source}-{compiler}{}", options.concat()).replace(['=', ','], "-");
    let program = scratch().join(name);
    let mut command = Command::new(compiler);
    command.args(WARNINGS).args(options).arg("-I").arg(root().join("src/ffi"));
    command.arg(root().join(format!("tests/sources/{source}.cpp"))).arg(library());
    command.arg("-o").arg(&program).args(["-lpthread", "-ldl", "-lm"]);
    if options.iter().any(|option| option.starts_with("-fsanitize")) {
        let output = command.output().expect("a compiler");
        return output.status.success().then_some(program);
    }
    run(&mut command);
    Some(program)
}

#[test]
fn a_program_in_cpp_controls_executors() {
    let mut programs = 0;
    for (compiler, options) in CPP.iter().filter(|(compiler, _)| is_installed(compiler)) {
        let program = compiled_cpp("control", compiler, options).expect("a program");
        let said = printed(Command::new(&program).args(objects()));
        assert!(said.ends_with("done\n"), "{said}");
        programs += 1;
    }
    let options = ["-std=c++17", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
    if let Some(program) = compiled_cpp("control", "g++", &options) {
        let executor =
            compiled("control", "gcc", &["-std=c11", "-DEXECUTOR_OF_CPP"]).expect("a program");
        let mut command = Command::new(program);
        let said = printed(command.env("FARCALL_EXECUTOR", executor).args(objects()));
        assert!(said.ends_with("done\n"), "{said}");
        programs += 1;
    }
    assert!(programs >= 3, "g++ is installed");
    println!("control.cpp: {programs} cases");
}

#[test]
fn the_examples_are_short_and_print_what_the_guide_says() {
    let at = scratch().join("example");
    std::fs::create_dir(&at).expect("a folder");
    let scale = "double scale(long n, double unit) { return n * unit; }\n\
                 double crash(void) { return *(volatile double *)8; }\n";
    std::fs::write(at.join("scale.c"), scale).expect("written");
    run(Command::new("gcc").args(["-O2", "-c", "scale.c"]).current_dir(&at));
    let guide =
        std::fs::read_to_string(root().join("src/docs/guide/languages.md")).expect("the guide");
    for (language, compiler, standard) in [("c", "gcc", "-std=c11"), ("cpp", "g++", "-std=c++17")] {
        let source = root().join(format!("examples/executor.{language}"));
        let text = std::fs::read_to_string(&source).expect("the example");
        assert!(text.lines().count() <= 40, "{} lines", text.lines().count());
        let mut command = Command::new(compiler);
        command.arg(standard).args(WARNINGS).arg("-I").arg(root().join("src/ffi")).arg(source);
        command.arg(library()).arg("-o").arg(at.join("executor"));
        run(command.args(["-lpthread", "-ldl", "-lm"]));
        let said = printed(Command::new(at.join("executor")).current_dir(&at));
        let (death, next) = said.split_once('\n').expect("two lines");
        let due = "executor died by SIGSEGV, fault address 0x8, in crash+";
        assert!(death.starts_with(due) && death.ends_with(" (scale.o)"), "{said}");
        assert_eq!(next, "3 * 0.5 = 1.5 in the next executor\n");
        assert!(
            guide.contains(&format!("```{language}\n{text}```\n")),
            "the guide shows the example"
        );
    }
}
