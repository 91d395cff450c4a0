//! Limits on the memory of this process, for errors.

use std::path::{Path, PathBuf};

/// The limit of this process's memory, and advice for the user. The limit is the smallest `memory.max` of its control
/// groups, if any has one, else the machine's memory.
pub(crate) fn of_memory() -> String {
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    match smallest(Path::new("/sys/fs/cgroup"), &own) {
        Some((bytes, file)) => format!(
            "the control group may have {bytes} bytes of memory ({}): raise its memory.max",
            file.display()
        ),
        None => "the machine has no more memory: end other programs, or add swap".to_owned(),
    }
}

/// The smallest limit of the group that a `/proc/PID/cgroup` names and of the groups around it, and the file that sets it.
fn smallest(root: &Path, own: &str) -> Option<(u64, PathBuf)> {
    let group = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    let group = root.join(group.trim_start_matches('/'));
    let groups = group.ancestors().take_while(|group| group.starts_with(root));
    let limits = groups.filter_map(|group| {
        let file = group.join("memory.max");
        // Without a limit the file has "max".
        let bytes = std::fs::read_to_string(&file).ok()?.trim().parse().ok()?;
        Some((bytes, file))
    });
    limits.min_by_key(|(bytes, _)| *bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_limit_around_a_process_counts() {
        let root = std::env::temp_dir().join(format!("farcall-limit-{}", std::process::id()));
        let inner = root.join("outer/inner");
        std::fs::create_dir_all(&inner).expect("a folder");
        let set = |folder: &Path, text| std::fs::write(folder.join("memory.max"), text);
        set(&inner, "max\n").expect("written");
        let of = |own: &str| smallest(&root, own).map(|(bytes, _)| bytes);
        assert_eq!(of("0::/outer/inner\n"), None);
        set(&root.join("outer"), "1000000\n").expect("written");
        assert_eq!(of("1:cpu:/x\n0::/outer/inner\n"), Some(1_000_000));
        set(&inner, "2000000\n").expect("written");
        assert_eq!(of("0::/outer/inner\n"), Some(1_000_000));
        set(&inner, "5\n").expect("written");
        assert_eq!(of("0::/outer/inner\n"), Some(5));
        assert_eq!(of("1:memory:/outer\n"), None);
        std::fs::remove_dir_all(&root).expect("removed");
        assert!(!of_memory().is_empty());
    }
}
