//! The passes of a link, in steps that tests judge one by one.
//!
//! Invariant: no byte of a file is trusted.

use super::Program;
use farcall_link::internals::{Addresses, WRONG_IMAGE};
use farcall_link::{
    Archive, Error, ExecutorAddr, Image, Layout, LinkGraph, ObjectFile, PlacedObject, Processor,
    Prot, Result, Verified,
};

/// A link that was laid out, and the addresses that it gets.
#[derive(Debug)]
pub struct Attempt {
    layout: Layout,
    processor: Processor,
    bases: [ExecutorAddr; 3],
}

/// A link that was made and not yet checked.
pub struct Made<'a> {
    attempt: &'a Attempt,
    image: Image,
    addresses: Addresses,
}

/// The addresses of images: three stripes within 1 GiB.
const BASES: [u64; 3] = [0x7f00_0000_0000, 0x7f00_1000_0000, 0x7f00_2000_0000];

/// The address of every name that a file does not define.
const OUTSIDE: u64 = 0x7f00_3000_4560;

impl Attempt {
    /// Reads and lays out an object, or all members of an archive that define something.
    ///
    /// # Errors
    /// The file cannot be linked.
    pub fn file(bytes: &[u8]) -> Result<Attempt> {
        let mut graph = LinkGraph::new();
        if bytes.starts_with(b"!<") {
            // A thin archive finds none of its members.
            let gone = |_: &str| Err(std::io::ErrorKind::NotFound.into());
            let archive = match Archive::is_thin(bytes) {
                true => Archive::parse_thin("fuzz.a", bytes.to_vec(), gone)?,
                false => Archive::parse("fuzz.a", bytes.to_vec())?,
            };
            for place in 0..archive.definition_count() {
                if let Ok(name) = std::str::from_utf8(archive.definition(place).0) {
                    graph.want(name)?;
                }
            }
            graph.add_archive(&archive)?;
        } else {
            let object = ObjectFile::parse("fuzz.o", bytes.to_vec())?;
            graph = LinkGraph::for_processor(object.processor());
            graph.add_object(&object)?;
        }
        for need in graph.undefined() {
            graph.define_external(&need.name, ExecutorAddr::new(OUTSIDE));
        }
        let (processor, bases) = (graph.processor(), BASES.map(ExecutorAddr::new));
        Ok(Attempt { layout: graph.layout()?, processor, bases })
    }

    /// Reads and lays out a program.
    ///
    /// # Errors
    /// It cannot be linked.
    pub fn program(program: &Program) -> Result<Attempt> {
        let mut graph = LinkGraph::for_processor(program.processor);
        for (number, bytes) in program.objects.iter().enumerate() {
            graph.add_object(&ObjectFile::parse(format!("{number}.o"), bytes.to_vec())?)?;
        }
        for (name, external) in &program.externals {
            graph.define_external(name, *external);
        }
        let functions = [OUTSIDE, OUTSIDE + 0x5555_0000_0000].map(ExecutorAddr::new);
        graph.define_thread_functions(functions[0], functions[1])?;
        let mut layout = graph.layout()?;
        if let Some(module) = program.tls_module {
            layout = layout.with_dynamic_threads(module)?;
        }
        let bases = program.bases.map(ExecutorAddr::new);
        Ok(Attempt { layout, processor: program.processor, bases })
    }

    /// The objects, for debuggers and profilers.
    #[must_use]
    pub fn objects(&self) -> Vec<PlacedObject> {
        self.layout.objects(self.bases)
    }

    /// The size of the image, zero fill included.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.layout.bytes().iter().sum()
    }

    /// Makes the image.
    ///
    /// # Errors
    /// A relocation cannot reach its target.
    pub fn make(&self) -> Result<Made<'_>> {
        let (bytes, alignment) = self.layout.thread_bytes();
        let distance =
            bytes.checked_next_multiple_of(alignment).and_then(|end| i64::try_from(end).ok());
        let distance = distance.ok_or_else(|| Error::link("too many thread-locals"))?;
        let offset = match self.processor {
            Processor::X86_64 => -distance,
            // Behind the two words at the thread pointer.
            _ => i64::try_from(alignment.max(16)).unwrap_or(i64::MAX),
        };
        let (image, addresses) = self.layout.compute(self.bases, offset)?;
        Ok(Made { attempt: self, image, addresses })
    }
}

impl Made<'_> {
    /// The image.
    #[must_use]
    pub fn image(&self) -> &Image {
        &self.image
    }

    /// The start of its code.
    #[must_use]
    pub fn code_start(&self) -> ExecutorAddr {
        self.attempt.bases[Prot::Code.index()]
    }

    /// Checks the image.
    ///
    /// # Errors
    /// It is wrong; see [`is_fault`].
    pub fn verify(&self) -> Result<Verified> {
        self.attempt.layout.verify(&self.image, &self.addresses, self.attempt.bases)
    }
}

impl std::fmt::Debug for Made<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Made").field("image", &self.image).finish_non_exhaustive()
    }
}

/// True for an error that only a mistake of the linker can cause.
#[must_use]
pub fn is_fault(error: &Error) -> bool {
    let text = error.to_string();
    let is_expected = error.is_link() || !error.symbols().is_empty();
    !is_expected || text.contains(WRONG_IMAGE) || text.contains('\n')
}
