//! The limits of this process and of its control group.

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};

use super::file_of_kernel;
use super::row::{Mark, Row};

/// Open files of one executor with pipelines and bulk buffers.
const OPEN_FILES: u64 = 256;
/// Bytes of address space for a slab of 0.25 GiB beside the program.
const ADDRESS_SPACE: u64 = 768 << 20;
/// Bytes of a file, for the largest stripe of a slab.
const FILE_BYTES: u64 = 128 << 20;
/// Memory for one executor with a few links.
const MEMORY: u64 = 64 << 20;

pub(super) fn rows() -> Vec<Row> {
    let limit = |name, resource, least, unit: fn(u64) -> String, without| match getrlimit(resource)
    {
        Ok((RLIM_INFINITY, _)) => Row::new(name, Mark::Good, "no limit", without),
        Ok((soft, hard)) => {
            let mark = if soft < least { Mark::Less } else { Mark::Good };
            let more = match hard {
                RLIM_INFINITY => ", can be raised".to_owned(),
                hard if hard > soft => format!(", can be raised to {}", unit(hard)),
                _ => String::new(),
            };
            Row::new(name, mark, format!("{}{more}", unit(soft)), without)
        }
        Err(errno) => Row::new(name, Mark::Unknown, format!("unknown: {errno}"), without),
    };
    vec![
        limit(
            "open files",
            Resource::RLIMIT_NOFILE,
            OPEN_FILES,
            |count| count.to_string(),
            "fewer executors, pipelines and bulk buffers (ulimit -n)",
        ),
        limit(
            "address space",
            Resource::RLIMIT_AS,
            ADDRESS_SPACE,
            bytes,
            "no executor: its slab has 0.25 GiB (ulimit -v)",
        ),
        limit(
            "file size",
            Resource::RLIMIT_FSIZE,
            FILE_BYTES,
            bytes,
            "no executor: the limit holds for memory files (ulimit -f)",
        ),
        memory(),
    ]
}

/// The smallest memory limit of this process's control group and the groups above it.
fn memory() -> Row {
    let without = "above the limit the kernel kills processes of the group";
    let Some(groups) = file_of_kernel("/proc/self/cgroup") else {
        return Row::new("memory cgroup", Mark::Unknown, "unknown: no /proc/self/cgroup", without);
    };
    // Version 2 has one line without a controller's name; version 1 has a line for each controller.
    let folders = groups.lines().filter_map(|line| {
        let (_, names_and_path) = line.split_once(':')?;
        let (names, path) = names_and_path.split_once(':')?;
        match names {
            "" => Some((format!("/sys/fs/cgroup{path}"), "memory.max")),
            _ if names.split(',').any(|name| name == "memory") => {
                Some((format!("/sys/fs/cgroup/memory{path}"), "memory.limit_in_bytes"))
            }
            _ => None,
        }
    });
    let limits = folders.flat_map(|(folder, file)| {
        let parents: Vec<String> = std::path::Path::new(&folder)
            .ancestors()
            .take_while(|folder| folder.starts_with("/sys/fs/cgroup"))
            .map(|folder| folder.join(file).display().to_string())
            .collect();
        parents.into_iter().filter_map(|path| file_of_kernel(&path)?.parse::<u64>().ok())
    });
    // For "no limit" version 1 writes the largest number of whole pages.
    match limits.min().filter(|limit| *limit < 1 << 60) {
        None => Row::new("memory cgroup", Mark::Good, "no limit", without),
        Some(limit) if limit < MEMORY => {
            Row::new("memory cgroup", Mark::Less, bytes(limit), without)
        }
        Some(limit) => Row::new("memory cgroup", Mark::Good, bytes(limit), without),
    }
}

/// A size in the largest unit that gives a number of at least 2.
fn bytes(number: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let unit = units.iter().find(|(shift, _)| number >> shift >= 2);
    unit.map_or_else(
        || format!("{number} bytes"),
        |(shift, name)| format!("{} {name}", number >> shift),
    )
}
