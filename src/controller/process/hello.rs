//! What an executor that is ready says of itself: version and features, among the numbers of its setup.

use std::collections::HashMap;

use crate::call::contract::{FEATURES, VERSION};
use crate::error::{Error, Result};
use crate::link::Processor;
use crate::wire::hello::{Features, Hello};

/// The features of the executor with these numbers.
///
/// # Errors
///
/// When it is of another version.
pub(crate) fn features(values: &HashMap<String, i64>) -> Result<Features> {
    let number = |name| values.get(name).copied().unwrap_or(0).cast_unsigned();
    let hello = Hello::new(number(VERSION), Features::from_bits(number(FEATURES)));
    hello.check("the executor", "this controller")?;
    Ok(hello.features)
}

/// Checks that an executor with this triple can share memory with this controller.
///
/// # Errors
///
/// When it is for another processor: stubs and calls by type are made for that of this program.
pub(crate) fn check_processor(triple: &str) -> Result<()> {
    match Processor::of_triple(triple) {
        Some(Processor::HOST) => Ok(()),
        other => Err(Error::invalid(format!(
            "the executor is for {}, and this controller for {}: with another processor there is no shared memory, so reach it over a \
             connection (Client)",
            other.map_or_else(|| triple.to_owned(), |other| other.to_string()),
            Processor::HOST
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::wire::hello::Feature;

    #[test]
    fn an_executor_that_is_ready_says_its_version_and_features() {
        let values = |version: u64, bits: u64| {
            let number = |name: &str, value: u64| (name.to_owned(), value.cast_signed());
            HashMap::from([number(VERSION, version), number(FEATURES, bits)])
        };
        let Hello { version, features: own } = Hello::OWN;
        assert_eq!(features(&values(version, own.bits())).expect("this build"), own);
        let none = features(&values(version, 0)).expect("a build without features");
        let error = none.require(Feature::Regions, "executor").expect_err("it lacks regions");
        assert!(error.to_string().contains("a build without regions"), "{error}");
        for (values, other) in [(values(99, u64::MAX), 99), (HashMap::new(), 0)] {
            let error = features(&values).expect_err("another version");
            assert_eq!(error.kind(), ErrorKind::Violation);
            let text = error.to_string();
            assert!(text.contains(&format!("the executor is of version {other},")), "{text}");
            assert!(text.contains(&format!("this controller of version {version}:")), "{text}");
        }
    }

    #[test]
    fn an_executor_for_another_processor_shares_no_memory() {
        check_processor(&format!("{}-unknown-linux-gnu", std::env::consts::ARCH))
            .expect("the same");
        let host = Processor::HOST;
        let (other, name) = match host {
            Processor::Aarch64 => ("x86_64-unknown-linux-gnu", "x86-64"),
            _ => ("aarch64-unknown-linux-gnu", "AArch64"),
        };
        for (triple, name) in [(other, name), ("riscv64-linux", "riscv64-linux")] {
            let error = check_processor(triple).expect_err("another").to_string();
            let names_both = format!("the executor is for {name}, and this controller for {host}:");
            assert!(error.starts_with(&names_both), "{error}");
        }
    }
}
