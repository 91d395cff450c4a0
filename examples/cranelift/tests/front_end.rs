//! The front end without arguments, as the README shows it.

use std::process::Command;

#[test]
fn functions_are_compiled_when_they_are_called_first() {
    let output = Command::new(env!("CARGO_BIN_EXE_farcall-cranelift"))
        .env_remove("FARCALL_EXECUTOR")
        .output()
        .expect("it starts");
    let [stdout, stderr] = [output.stdout, output.stderr].map(String::from_utf8);
    assert!(output.status.success(), "{} {stderr:?}", output.status);
    assert_eq!(stdout.expect("text"), "norm(3, 4) / 2 = 2.5\n");
    let compiled = "compiling the expression\ncompiling norm\ncompiling square\n";
    assert_eq!(stderr.expect("text"), compiled);
}
