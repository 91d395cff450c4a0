//! `ExecutorProcessInfoTest`, `TargetTripleTest` and `CPUFeaturesTest` of LLVM's runtime.

use super::*;

fn info() -> (String, u64, String) {
    ProcessInfo::serve(()).expect("an answer")
}

mod process_info {
    use super::*;

    #[test]
    fn detect_succeeds() {
        let (triple, page_bytes, features) = info();
        assert_eq!(
            (triple, page_bytes, features),
            (super::triple(), PAGE_BYTES, super::features())
        );
    }

    #[test]
    fn detect_page_size_is_power_of_two() {
        assert!(info().1.is_power_of_two());
    }

    #[test]
    fn detect_page_size_at_least_4096() {
        assert!(info().1 >= 4096);
    }

    #[test]
    fn detect_page_size_matches_system() {
        let system = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE);
        let system = system.expect("Linux").expect("it has pages");
        assert_eq!(Ok(info().1), u64::try_from(system));
    }
}

mod target_triple {
    use super::*;

    fn part(number: usize) -> String {
        triple().split('-').nth(number).unwrap_or_default().to_owned()
    }

    #[test]
    fn not_empty() {
        assert!((0..4).all(|number| !part(number).is_empty()), "{}", triple());
    }

    #[test]
    fn has_valid_structure() {
        assert_eq!(triple().matches('-').count(), 3);
    }

    #[test]
    fn arch_matches_compile_target() {
        assert_eq!(part(0), std::env::consts::ARCH);
    }

    #[test]
    fn os_matches_compile_target() {
        assert_eq!(part(2), "linux");
    }

    #[test]
    fn cached_result_is_idempotent() {
        assert_eq!(triple(), triple());
    }
}

mod cpu_features {
    use super::*;

    #[test]
    fn detect_does_not_crash() {
        let features = features();
        let is_feature = |name: &str| name.len() > 1 && name.starts_with('+');
        assert!(features.is_empty() || features.split(',').all(is_feature), "{features}");
    }

    #[test]
    fn cached_result_is_idempotent() {
        assert_eq!(features(), features());
    }

    #[test]
    fn detects_baseline_x86_features() {
        let baseline: &[&str] =
            if std::env::consts::ARCH == "x86_64" { &["+sse", "+sse2"] } else { &["+neon"] };
        for &name in baseline {
            assert!(features().split(',').any(|feature| feature == name), "{name}");
        }
    }
}
