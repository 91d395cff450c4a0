//! Shared memory that another process opens by its name.
//!
//! `shm_open` of the C library opens files of one directory, and neither links nor other paths. So memory for a peer that uses it
//! has to be a file there. The peer removes the name when it has the file; [`Name`] removes it otherwise.

use std::fs::{File, OpenOptions, remove_file};
use std::hash::{BuildHasher, RandomState};
use std::os::unix::fs::OpenOptionsExt;

use nix::sys::resource::{Resource, getrlimit};
use nix::sys::statvfs::{FsFlags, fstatvfs};

use crate::error::{Error, Result};

/// The directory of the C library's `shm_open`.
const DIRECTORY: &str = "/dev/shm";

/// The name of a file for `shm_open`. It is removed when this value is dropped, unless the peer has removed it.
#[derive(Debug)]
pub(crate) struct Name(String);

impl Name {
    /// The name as `shm_open` takes it.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    fn path(&self) -> String {
        format!("{DIRECTORY}{}", self.0)
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        // It is no other file's: a part of it is random.
        let _ = remove_file(self.path());
    }
}

/// Creates a file of `bytes` zero bytes that the same user can open by its name. Its pages have no memory yet.
///
/// # Errors
///
/// When the file system refuses, when code cannot run from its files, or when `bytes` is over this process's limit on file
/// sizes.
pub(crate) fn create(bytes: u64) -> Result<(File, Name)> {
    // The kernel would end the process by SIGXFSZ.
    let limit = getrlimit(Resource::RLIMIT_FSIZE).map_or(u64::MAX, |(limit, _)| limit);
    if bytes > limit {
        return Err(Error::exhausted(format!(
            "{bytes} bytes of shared memory, and RLIMIT_FSIZE is {limit}: raise it with ulimit -f"
        )));
    }
    let random = RandomState::new().hash_one(bytes);
    let name = Name(format!("/farcall-llvm-{}-{random:016x}", std::process::id()));
    let during = |error| Error::os(format!("creating {bytes} bytes of {}", name.path()), error);
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create_new(true).mode(0o600);
    let file = options.open(name.path()).map_err(during)?;
    let system = fstatvfs(&file).map_err(|errno| during(errno.into()))?;
    if system.flags().contains(FsFlags::ST_NOEXEC) {
        return Err(Error::invalid(format!(
            "{DIRECTORY} is mounted noexec, so code cannot run from shared memory there: use another memory manager \
             (llvm-jitlink: -use-memmgr=simple-remote)"
        )));
    }
    file.set_len(bytes).map_err(during)?;
    Ok((file, name))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_name_goes_with_its_value_or_before() {
        let (file, name) = create(8192).expect("a file");
        assert_eq!(file.metadata().expect("of a file").len(), 8192);
        let path = name.path();
        File::open(&path).expect("it is there");
        let (_, other) = create(8192).expect("a file");
        assert_ne!(name.as_str(), other.as_str());
        remove_file(other.path()).expect("it is there");
        drop((name, other));
        assert!(File::open(&path).is_err(), "it is gone");
    }

    #[test]
    fn an_impossible_size_leaves_no_name() {
        let names = || -> HashSet<_> {
            let own = format!("farcall-llvm-{}-", std::process::id());
            let entries = std::fs::read_dir(DIRECTORY).expect("a directory").flatten();
            let names = entries.map(|entry| entry.file_name());
            names.filter(|name| name.to_string_lossy().starts_with(&own)).collect()
        };
        let before = names();
        let error = create(u64::MAX - 4095).expect_err("too large").to_string();
        assert!(error.contains("18446744073709547520 bytes"), "{error}");
        let mut new: HashSet<_> = names().difference(&before).cloned().collect();
        // Other tests make names at the same time, and remove them.
        let deadline = Instant::now() + Duration::from_secs(20);
        while !new.is_empty() {
            assert!(Instant::now() < deadline, "{new:?} stay");
            std::thread::yield_now();
            new.retain(|name| names().contains(name));
        }
    }
}
