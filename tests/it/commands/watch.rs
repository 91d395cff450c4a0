//! `farcall watch`: hot reload of a C file on save.
//!
//! Invariant: no assertion on a time, except that waits time out.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::testkit::launch::FARCALL;
use crate::testkit::process::{Running, until};

/// A program that counts, with this step; what it says goes to standard output at once.
fn counting(step: u32) -> String {
    format!(
        "#include <stdio.h>\n\
         static int own = 100; int shared; static const char *said = \"so far\";\n\
         void tick(void) {{ static int turns; own += {step}; turns++; shared += turns;\n\
         printf(\"step {step}: %s %d, %d turns\\n\", said, own, turns); fflush(stdout); }}\n"
    )
}

fn watch(file: &Path, options: &[&str]) -> Running {
    let mut command = Command::new(FARCALL);
    command.arg("watch").arg(file).args(options);
    Running::start(command)
}

#[test]
fn a_saved_file_takes_the_place_of_the_last_and_keeps_its_data() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("count.c");
    fs::write(&file, counting(1)).expect("written");
    let watch = watch(&file, &["--every", "10ms"]);
    watch.wait_for("step 1: so far 103, 3 turns\n");

    // It does not compile, and the last version goes on.
    fs::write(&file, "void tick(void) { nonsense }").expect("written");
    watch.wait_for_complaint("does not compile, version 1 stays");
    let lines = || watch.written().lines().count();
    let before = lines();
    until("it goes on", || lines() > before + 3);

    // An editor puts a new file in the place of the old one.
    let new = folder.path().join("count.c.new");
    fs::write(&new, counting(1000)).expect("written");
    fs::rename(&new, &file).expect("renamed");
    watch.wait_for_complaint("version 2");
    watch.wait_for("step 1000: ");
    let output = watch.written();
    let number = |line: &str, at: usize| {
        let word = line.split_whitespace().nth(at).expect("a word").trim_end_matches(',');
        word.parse::<i64>().expect("a number")
    };
    let first_new = output.lines().position(|line| line.starts_with("step 1000")).expect("there");
    let all: Vec<_> = output.lines().collect();
    let (old, new) = (all[first_new - 1], all[first_new]);
    assert_eq!(number(new, 4), number(old, 4) + 1000, "{old}, then {new}: a static variable");
    assert_eq!(number(new, 5), number(old, 5) + 1, "{old}, then {new}: one of the function");

    // It crashes, and so does not go on before the next version.
    fs::write(&file, "void tick(void) { *(volatile int *)16 = 1; }").expect("written");
    watch.wait_for_complaint("executor died by SIGSEGV, fault address 0x10, in tick+0x");
    fs::write(&file, counting(7)).expect("written");
    watch.wait_for("step 7: so far 107, 1 turns\n");
}

#[test]
fn a_file_with_main_is_run_once_for_each_version() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("main.c");
    fs::write(&file, "int main(void) { return 3; }").expect("written");
    let watch = watch(&file, &["--", "-O2"]);
    watch.wait_for_complaint("main has returned 3");
    fs::write(&file, "int main(void) { return 4; }").expect("written");
    watch.wait_for_complaint("main has returned 4");
}

/// A program that counts, says so with this word, and then does this.
fn counting_then(word: &str, then: &str) -> String {
    format!(
        "#include <signal.h>\n#include <stdio.h>\nint shared; static volatile int turns;\n\
         void tick(void) {{ printf(\"{word} %d\\n\", ++shared); fflush(stdout); {then} }}\n"
    )
}

#[test]
fn a_save_interrupts_a_function_that_hangs_and_data_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("hang.c");
    fs::write(&file, counting_then("first", "if (shared == 3) for (;;) turns++;"))
        .expect("written");
    let watch = watch(&file, &["--every", "10ms"]);
    watch.wait_for("first 3\n");
    // The next version hangs at once.
    fs::write(&file, counting_then("second", "for (;;) turns++;")).expect("written");
    watch.wait_for_complaint("interrupted in tick+0x");
    watch.wait_for("second 4\n");
    fs::write(&file, counting_then("third", "")).expect("written");
    watch.wait_for("third 6\n");
    watch.wait_for_complaint("; the data stays");
    watch.wait_for_complaint("version 3");
}

#[test]
fn a_save_ends_the_process_of_a_hang_that_blocks_all_signals() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("hang.c");
    let blocks =
        "sigset_t all; sigfillset(&all); sigprocmask(SIG_BLOCK, &all, 0); for (;;) turns++;";
    fs::write(&file, counting_then("first", blocks)).expect("written");
    let watch = watch(&file, &["--every", "10ms"]);
    watch.wait_for("first 1\n");
    fs::write(&file, counting_then("second", "")).expect("written");
    watch.wait_for_complaint("died by SIGKILL");
    watch.wait_for_complaint("with new data");
    watch.wait_for("second 1\n");
}

#[test]
fn a_save_interrupts_a_main_that_does_not_return() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("main.c");
    let serving = "#include <stdio.h>\n#include <unistd.h>\n\
                   int main(void) { puts(\"serving\"); fflush(stdout); for (;;) sleep(1000); }\n";
    fs::write(&file, serving).expect("written");
    let watch = watch(&file, &[]);
    watch.wait_for("serving\n");
    fs::write(&file, "int main(void) { return 4; }").expect("written");
    watch.wait_for_complaint("interrupted in main+0x");
    watch.wait_for_complaint("main has returned 4");
}

#[test]
fn a_file_that_cannot_be_watched_is_refused() {
    let nowhere = watch(Path::new("/nowhere/at/all.c"), &[]).end();
    assert_eq!(nowhere.status, 127, "{nowhere}");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("empty.c");
    fs::write(&file, "").expect("written");
    let empty = watch(&file, &[]).end();
    assert!(empty.status == 126 && empty.complaint().contains("main"), "{empty}");
}
