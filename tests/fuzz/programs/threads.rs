//! One program linked by 1, 2 and 8 threads: the number of threads must not change the image.
//!
//! Invariant: each link has the files and nothing of another link.

use std::num::NonZeroUsize;

use super::Program;
use farcall_base::parallel::Threads;
use farcall_link::internals::Archives;
use farcall_link::{Archive, ExecutorAddr, Image, LinkGraph, ObjectFile, Processor, Result};

/// The numbers of threads that are compared.
const THREADS: [usize; 3] = [1, 2, 8];

/// An image, and the names that its objects left undefined.
type Linked = (Image, Vec<String>);

impl Program {
    /// Links the first object with the members that it needs of two archives, which have the others: by 1, 2 and 8 threads.
    /// Returns the number of members; `None` if all three links fail with one error.
    ///
    /// # Errors
    /// Says what differs.
    pub fn by_threads(&self) -> std::result::Result<Option<u64>, String> {
        let archives = self.archives().map_err(|error| error.to_string())?;
        let [one, two, eight] = THREADS.map(|threads| self.link(&archives, threads));
        match (one, two, eight) {
            (Ok(one), Ok(two), Ok(eight)) => {
                for (other, threads) in [(&two, 2), (&eight, 8)] {
                    if (&one.0.stripes, &one.1) != (&other.0.stripes, &other.1) {
                        return Err(format!("{threads} threads make another image than one"));
                    }
                    if one.0.stats != other.0.stats {
                        return Err(format!("{:?}, then {:?}", one.0.stats, other.0.stats));
                    }
                }
                Ok(Some(one.0.stats.objects - 1))
            }
            (Err(one), Err(two), Err(eight)) => {
                let texts = [&one, &two, &eight].map(ToString::to_string);
                let is_same = texts[0] == texts[1] && texts[1] == texts[2];
                if is_same { Ok(None) } else { Err(format!("errors differ: {texts:?}")) }
            }
            (one, two, eight) => {
                let linked = [one.is_ok(), two.is_ok(), eight.is_ok()];
                Err(format!("it can be linked by some numbers of threads only: {linked:?}"))
            }
        }
    }

    /// Two archives without symbol tables: of the even members, and of the odd ones.
    fn archives(&self) -> Result<Archives> {
        let mut archives = Archives::default();
        for first in [1, 2] {
            let mut bytes = b"!<arch>\n".to_vec();
            for (number, member) in self.objects.iter().enumerate().skip(first).step_by(2) {
                let (name, len) = (format!("{number}.o/"), member.len());
                let header = format!("{name:<16}0           0     0     644     {len:<10}`\n");
                bytes.extend_from_slice(header.as_bytes());
                bytes.extend_from_slice(member);
                bytes.resize(bytes.len().next_multiple_of(2), b'\n');
            }
            archives.push(&Archive::parse(format!("{first}.a"), bytes)?);
        }
        Ok(archives)
    }

    fn link(&self, archives: &Archives, threads: usize) -> Result<Linked> {
        let mut graph = LinkGraph::for_processor(self.processor);
        graph.set_threads(Threads { most: NonZeroUsize::new(threads), bytes_min: 1 });
        graph.add_object(&ObjectFile::parse("first.o", self.objects[0].clone())?)?;
        graph.add_archives(archives, |_| false)?;
        for (name, external) in &self.externals {
            graph.define_external(name, *external);
        }
        let undefined: Vec<_> = graph.undefined().iter().map(|one| one.name.to_string()).collect();
        for name in &undefined {
            graph.define_external(name, ExecutorAddr::new(self.bases[2] + 0x2000_0000));
        }
        let functions = [0x1000, 0x2000].map(|at| ExecutorAddr::new(self.bases[2] + at));
        graph.define_thread_functions(functions[0], functions[1])?;
        let mut layout = graph.layout()?;
        if let Some(module) = self.tls_module {
            layout = layout.with_dynamic_threads(module)?;
        }
        let offset = if self.processor == Processor::X86_64 { -0x10000 } else { 64 };
        Ok((layout.fixup(self.bases.map(ExecutorAddr::new), offset)?, undefined))
    }
}
