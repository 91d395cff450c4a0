//! A control group with half a CPU.
//!
//! Invariant: the group is removed when its value is dropped, and what was enabled for it is disabled again. A run removes the
//! groups of earlier runs that were killed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// Where control groups are mounted.
const ROOT: &str = "/sys/fs/cgroup";
/// The first letters of a group's folder; the number of the process follows.
const NAME: &str = "farcall-bench-";
/// Microseconds of CPU time in each period, and the period.
const QUOTA_US: u32 = 50_000;
const PERIOD_US: u32 = 100_000;
/// How long the kernel may need after the end of the last process of the group.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// A control group whose processes together get half a CPU.
#[derive(Debug)]
pub(crate) struct Quota {
    folder: PathBuf,
    /// The file by which the controller was enabled for this group.
    enabled: Option<PathBuf>,
}

impl Quota {
    /// Makes the group inside of the group of this process, or above that.
    ///
    /// # Errors
    /// The reason why this process can make no such group.
    pub(crate) fn start() -> Result<Quota, String> {
        let groups = fs::read_to_string("/proc/self/cgroup")
            .map_err(|error| format!("/proc/self/cgroup: {error}"))?;
        let mut complaint = format!("no CPU controller in {ROOT}");
        for (folder, is_second) in parents(&groups) {
            match Quota::make(&folder, is_second) {
                Ok(quota) => return Ok(quota),
                Err(error) => complaint = format!("{}: {error}", folder.display()),
            }
        }
        Err(complaint)
    }

    fn make(parent: &Path, is_second: bool) -> io::Result<Quota> {
        remove_old(parent);
        let folder = parent.join(format!("{NAME}{}", std::process::id()));
        let enabled = if is_second { enable(parent)? } else { None };
        let made = fs::create_dir(&folder);
        // From here on it is removed.
        let quota = Quota { folder, enabled };
        made?;
        if is_second {
            fs::write(quota.folder.join("cpu.max"), format!("{QUOTA_US} {PERIOD_US}"))?;
        } else {
            fs::write(quota.folder.join("cpu.cfs_period_us"), PERIOD_US.to_string())?;
            fs::write(quota.folder.join("cpu.cfs_quota_us"), QUOTA_US.to_string())?;
        }
        Ok(quota)
    }

    /// The folder of the group, for processes that join it.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        let start = Instant::now();
        while fs::remove_dir(&self.folder)
            .is_err_and(|error| error.kind() == io::ErrorKind::ResourceBusy)
            && start.elapsed() < END_TIMEOUT
        {
            thread::sleep(Duration::from_millis(5));
        }
        if let Some(file) = &self.enabled {
            // Another group may use the controller by now.
            let _ = fs::write(file, "-cpu");
        }
    }
}

/// The folders in which a group may be made, the group of this process first: of version 2, else of version 1.
fn parents(groups: &str) -> Vec<(PathBuf, bool)> {
    let path_of = |wanted: &dyn Fn(&str) -> bool| {
        groups.lines().find_map(|line| {
            let (_, controllers_and_path) = line.split_once(':')?;
            let (controllers, path) = controllers_and_path.split_once(':')?;
            wanted(controllers).then(|| path.trim_start_matches('/').to_owned())
        })
    };
    let is_second = Path::new(ROOT).join("cgroup.controllers").exists();
    let (root, path) = if is_second {
        (PathBuf::from(ROOT), path_of(&str::is_empty))
    } else {
        let is_cpu = |controllers: &str| controllers.split(',').any(|name| name == "cpu");
        (Path::new(ROOT).join("cpu"), path_of(&is_cpu))
    };
    let Some(path) = path else { return Vec::new() };
    let folder = root.join(path);
    let inside = folder.ancestors().take_while(|folder| folder.starts_with(&root));
    inside.map(|folder| (folder.to_owned(), is_second)).collect()
}

/// Enables the CPU controller for the groups inside `parent`; the file by which that was done, if it was not enabled before.
fn enable(parent: &Path) -> io::Result<Option<PathBuf>> {
    let file = parent.join("cgroup.subtree_control");
    if fs::read_to_string(&file)?.split_whitespace().any(|name| name == "cpu") {
        return Ok(None);
    }
    fs::write(&file, "+cpu")?;
    Ok(Some(file))
}

/// Removes the groups of runs whose process is gone.
fn remove_old(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for name in entries.flatten().map(|entry| entry.file_name()) {
        let process = name.to_str().and_then(|name| name.strip_prefix(NAME));
        if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
            // Fails while a process is in the group.
            let _ = fs::remove_dir(parent.join(&name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_goes_inside_the_group_of_this_process_or_above() {
        let groups = "3:cpuset:/\n1:cpu,cpuacct:/a/b\n0::/a/b\n";
        let found = parents(groups);
        let (first, is_second) = &found[0];
        assert!(first.ends_with("a/b") && found.len() == 3, "{found:?}");
        assert!(found.iter().all(|(_, second)| second == is_second));
        assert_eq!(parents("3:cpuset:/\n"), []);
    }

    #[test]
    fn the_group_is_gone_after_its_value() {
        match Quota::start() {
            Err(why) => println!("skipped: {why}"),
            Ok(quota) => {
                let folder = quota.folder().to_owned();
                assert!(folder.exists());
                drop(quota);
                assert!(!folder.exists(), "{}", folder.display());
            }
        }
    }
}
