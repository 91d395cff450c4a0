//! A mark for profilers: they record the files that a process maps as code, and so find the files that describe its
//! own code.

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::call::contract::ProfileMark;
use crate::error::{Error, Result};
use crate::executor::entry::wrapper::Serve;
use crate::sps::Bytes;
use crate::sys::memory::map;

impl Serve for ProfileMark {
    fn serve((Bytes(path),): (Bytes,)) -> Result<()> {
        let path = Path::new(OsStr::from_bytes(&path));
        let opened = File::open(path);
        let file =
            opened.map_err(|error| Error::os(format!("opening {}", path.display()), error))?;
        map::mark(&file).map_err(|error| error.during(path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_stays_mapped_as_code() {
        let name = format!("farcall-mark-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, [0; 40]).expect("written");
        let bytes = Bytes(path.as_os_str().as_bytes().to_vec());
        ProfileMark::serve((bytes.clone(),)).expect("mapped");
        let maps = std::fs::read_to_string("/proc/self/maps").expect("the system says");
        let mark = maps.lines().find(|line| line.ends_with(path.to_str().expect("text")));
        assert!(mark.is_some_and(|line| line.contains(" r-xp 00000000 ")), "{mark:?}");
        std::fs::remove_file(&path).expect("removed");
        let error = ProfileMark::serve((bytes,)).expect_err("it has gone").to_string();
        assert!(error.contains("opening") && error.contains("farcall-mark"), "{error}");
    }
}
