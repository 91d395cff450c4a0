//! The version and the features of a side, which travel in its first message.
//!
//! Two sides of different versions refuse each other. Raise [`VERSION`] for a change that an older side would misread. A message that an
//! older side merely lacks gets a [`Feature`]: the newer side then refuses by name what needs it.

use super::layout::VERSION;
use crate::error::{Error, Result};

/// A part of the protocol that a side of this version may lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Feature {
    /// The executor serves pipelines.
    Pipelines = 0,
    /// The executor attaches regions.
    Regions = 1,
    /// The executor becomes a zygote, and forks copies.
    Snapshots = 2,
    /// The controller opens lanes for threads of the program's own.
    ReverseLanes = 3,
    /// The executor interrupts calls.
    Interrupts = 4,
}

impl Feature {
    /// All that this build has.
    pub(crate) const ALL: [Self; 5] =
        [Self::Pipelines, Self::Regions, Self::Snapshots, Self::ReverseLanes, Self::Interrupts];

    /// The name in errors and in the table of the page.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Pipelines => "pipelines",
            Self::Regions => "regions",
            Self::Snapshots => "snapshots",
            Self::ReverseLanes => "reverse lanes",
            Self::Interrupts => "interrupts",
        }
    }
}

/// A set of features: a bit for each. Bits without a name here belong to later builds, and are kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Features(u64);

impl Features {
    /// The features of this build.
    pub(crate) const OWN: Self = {
        let (mut bits, mut at) = (0, 0);
        while at < Feature::ALL.len() {
            bits |= 1 << Feature::ALL[at] as u8;
            at += 1;
        }
        Self(bits)
    };

    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    /// Refuses what needs a feature that the `peer` lacks.
    ///
    /// # Errors
    ///
    /// `ErrorKind::InvalidArgument`, with the feature's name.
    pub(crate) fn require(self, feature: Feature, peer: &str) -> Result<()> {
        if self.0 & 1 << feature as u8 != 0 {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "the {peer} is of a build without {}: install controller and executor from one build",
            feature.name()
        )))
    }
}

/// A side's words about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) version: u64,
    /// None for a side of another version: what follows the version has a meaning of its own there.
    pub(crate) features: Features,
}

impl Hello {
    /// This build's words.
    pub(crate) const OWN: Self = Self { version: VERSION, features: Features::OWN };

    /// A side with this version, and with these features if the version is this one.
    pub(crate) fn new(version: u64, features: Features) -> Self {
        let is_own = version == VERSION;
        Self { version, features: if is_own { features } else { Features::default() } }
    }

    /// Refuses a side of another version. `peer` and `own` name the sides, as "the controller" and "this executor".
    ///
    /// # Errors
    ///
    /// `ErrorKind::Violation`, with both versions.
    pub(crate) fn check(self, peer: &str, own: &str) -> Result<()> {
        match self.version {
            VERSION => Ok(()),
            other => Err(Error::violation(format!(
                "{peer} is of version {other}, and {own} of version {VERSION}: install controller and executor from one build"
            ))),
        }
    }
}

/// Refuses a segment with other first words than the `due` ones. `segment` names it.
///
/// # Errors
///
/// `ErrorKind::Violation`: with both versions, if the words belong to a segment of another version.
pub(crate) fn check_segment(header: [u64; 4], due: [u64; 4], segment: &str) -> Result<()> {
    let ([magic, version, ..], [due_magic, ..]) = (header, due);
    if header == due {
        return Ok(());
    }
    if magic == due_magic {
        Hello::new(version, Features::default()).check(segment, "this side")?;
    }
    Err(Error::violation(format!(
        "{segment} is not of version {VERSION}: install controller and executor from one build"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn another_version_is_refused_with_both_versions() {
        Hello::OWN.check("the executor", "this controller").expect("this version");
        for other in [0, VERSION - 1, VERSION + 1, u64::MAX] {
            let hello = Hello::new(other, Features::OWN);
            assert_eq!(hello.features, Features::default(), "{other}");
            let error =
                hello.check("the executor", "this controller").expect_err("another version");
            assert_eq!(error.kind(), ErrorKind::Violation);
            let text = error.to_string();
            assert!(text.starts_with(&format!("the executor is of version {other}, ")), "{text}");
            assert!(text.contains(&format!("this controller of version {VERSION}: ")), "{text}");
        }
    }

    #[test]
    fn a_feature_that_a_peer_lacks_is_named() {
        let all = Feature::ALL.map(|feature| 1 << feature as u8);
        assert_eq!(Features::OWN.bits(), all.iter().sum::<u64>(), "two features share a bit");
        for feature in Feature::ALL {
            Features::OWN.require(feature, "executor").expect("this build has it");
            let lacks = Features::from_bits(!(1 << feature as u8));
            let error = lacks.require(feature, "executor").expect_err("lacked");
            assert!(error.to_string().contains(feature.name()), "{error}");
            for other in Feature::ALL.into_iter().filter(|other| *other != feature) {
                lacks.require(other, "executor").expect("not lacked");
            }
        }
    }

    #[test]
    fn a_segment_of_another_version_names_both() {
        let due = [7, VERSION, 64, 8];
        check_segment(due, due, "a segment").expect("this version");
        let text =
            |header| check_segment(header, due, "a segment").expect_err("refused").to_string();
        assert!(text([7, 99, 32, 8]).starts_with("a segment is of version 99, and this side of"));
        for header in [[6, VERSION, 64, 8], [6, 99, 64, 8], [7, VERSION, 63, 8]] {
            assert!(text(header).contains("is not of version"), "{header:?}");
        }
    }
}
