//! The passes that turn a graph into an image, in their order.
//!
//! Invariant: no pass changes what a pass before it computed.

use super::apply::stripes::{self, Applied, Piece};
use super::graph::link_graph::LinkGraph;
use super::output::function_table::FunctionTable;
use super::output::image::Image;
use super::output::symbol_table::SymbolTable;
use super::place::addresses::Addresses;
use super::place::check;
use super::place::layout::Layout;
use super::verify::link_map::LinkMap;
use super::verify::{self, Verified, WRONG_IMAGE};
use crate::addr::{ExecutorAddr, Prot};
use crate::error::{Error, Result};
use crate::sync::Mutex;

/// The bytes of an image that this process keeps, which several threads store.
type Stripes = [Mutex<Vec<u8>>; Prot::ALL.len()];

/// A part of an image.
enum Part {
    Names(SymbolTable),
    Functions(FunctionTable),
    Bytes(Applied),
}

impl LinkGraph {
    /// Decides what is loaded, and gives it its place in the three stripes.
    ///
    /// # Errors
    /// Names that are not weak are undefined ([`Error::symbols`] lists them), or an object uses something that cannot be
    /// linked.
    pub fn layout(mut self) -> Result<Layout> {
        self.drop_overridden();
        check::refuse_what_cannot_be_linked(&self, None)?;
        let missing = self.undefined().into_iter().filter(|need| !need.weak);
        let missing: Vec<String> = missing.map(|need| need.name.to_string()).collect();
        if !missing.is_empty() {
            return Err(Error::symbols_not_found(missing));
        }
        Layout::new(self, None)
    }
}

impl Layout {
    /// The same link with *dynamic* thread-locals, for an executor whose static TLS has no destination for them. Code asks the
    /// executor for the address of each thread-local, and a thread gets its copy of the TLS block when it first asks. `module`
    /// is the number by which the executor will know the TLS module. All sections of a link share one TLS block. So all code of
    /// the link that reaches it must ask: general dynamic, local dynamic, or by descriptors.
    ///
    /// # Errors
    /// The message names code that needs a constant distance from the thread pointer, and says how to compile it; or
    /// [`LinkGraph::define_thread_functions`] was not called.
    pub fn with_dynamic_threads(self, module: u32) -> Result<Layout> {
        check::refuse_what_cannot_be_linked(&self.graph, Some(module))?;
        Layout::new(self.graph, Some(module))
    }

    /// Computes the image for stripes at `bases`, in the order of [`Prot::ALL`](crate::Prot::ALL). Each base has the
    /// [alignment](Self::alignments) of its stripe. PC-relative code needs all three within 2 GiB of each other and of what
    /// it refers to.
    /// `thread_offset` is the distance, in bytes, of every thread's copy of the thread-locals from its thread pointer: a
    /// multiple of their alignment. It is ignored when there are no thread-locals, or when they are dynamic.
    ///
    /// # Errors
    /// A base or `thread_offset` is not aligned, or a relocation cannot reach its target; the message says which, and how to
    /// compile for it.
    pub fn fixup(self, bases: [ExecutorAddr; 3], thread_offset: i64) -> Result<Image> {
        if cfg!(debug_assertions) {
            return self.fixup_and_verify(bases, thread_offset).map(|(image, _)| image);
        }
        self.compute(bases, thread_offset).map(|(image, _)| image)
    }

    /// As [`fixup`](Self::fixup), but keeps no bytes: [`Image::stripes`] are empty. `store` gets the bytes in pieces: their
    /// stripe, their offset in it, and the bytes. Together the pieces are what `stripes` would hold. Several threads may call
    /// it at once, each for other pieces. After an error an unknown part of the pieces was stored.
    ///
    /// # Errors
    /// As [`fixup`](Self::fixup).
    pub fn fixup_to(
        self,
        bases: [ExecutorAddr; 3],
        thread_offset: i64,
        store: impl Fn(Prot, u64, &[u8]) + Sync,
    ) -> Result<Image> {
        let copy =
            if cfg!(debug_assertions) { Some(self.stripes(Vec::with_capacity)?) } else { None };
        let store = |prot, offset, piece: &[u8]| {
            store(prot, offset, piece);
            copy.iter().for_each(|copy| keep(copy, prot, offset, piece));
        };
        self.fixup_and_load(bases, thread_offset, store, || {
            Ok(copy.as_ref().map(taken).unwrap_or_default())
        })
    }

    /// As [`fixup_to`](Self::fixup_to). In debug builds `load` gives what was stored, which is checked.
    #[doc(hidden)]
    pub fn fixup_and_load(
        self,
        bases: [ExecutorAddr; 3],
        thread_offset: i64,
        store: impl Fn(Prot, u64, &[u8]) + Sync,
        load: impl FnOnce() -> Result<[Vec<u8>; 3]>,
    ) -> Result<Image> {
        let put = |piece: &Piece, addresses: &Addresses, buffer: &mut Vec<u8>| {
            let (bytes, applied) = piece.compute(&self, addresses, buffer)?;
            let (prot, offset) = piece.place();
            store(prot, offset, bytes);
            Ok(applied)
        };
        let (mut image, addresses) = self.compute_to(bases, thread_offset, put)?;
        if cfg!(debug_assertions) {
            image.stripes = load()?;
            self.verify(&image, &addresses, bases)?;
            image.stripes = Default::default();
        }
        Ok(image)
    }

    /// As [`fixup`](Self::fixup), and then compares the image with the bytes of the objects; `fixup` does so itself in
    /// debug builds. Says what was checked.
    ///
    /// # Errors
    /// As [`fixup`](Self::fixup); or the image is not what the objects ask for.
    pub fn fixup_and_verify(
        self,
        bases: [ExecutorAddr; 3],
        thread_offset: i64,
    ) -> Result<(Image, Verified)> {
        let (image, addresses) = self.compute(bases, thread_offset)?;
        let verified = self.verify(&image, &addresses, bases)?;
        Ok((image, verified))
    }

    /// Compares an image with the bytes of the objects.
    #[doc(hidden)]
    pub fn verify(
        &self,
        image: &Image,
        addresses: &Addresses,
        bases: [ExecutorAddr; 3],
    ) -> Result<Verified> {
        let map = LinkMap::new(self, addresses, bases.map(ExecutorAddr::get));
        verify::verify(&map, image).map_err(|what| {
            Error::link(format!("{what} ({WRONG_IMAGE}: report it with the objects)"))
        })
    }

    /// The image, which nothing has checked, and the addresses that it was computed for.
    #[doc(hidden)]
    pub fn compute(
        &self,
        bases: [ExecutorAddr; 3],
        thread_offset: i64,
    ) -> Result<(Image, Addresses)> {
        let stripes = self.stripes(|bytes| vec![0; bytes])?;
        // In its place, so that no bytes are there twice.
        let put = |piece: &Piece, addresses: &Addresses, _: &mut Vec<u8>| {
            let (prot, offset) = piece.place();
            let start = usize::try_from(offset).unwrap_or(usize::MAX);
            let bytes = &mut stripes[prot.index()].lock()[start..][..piece.bytes()];
            let padding = piece.padding(self);
            if padding != 0 {
                bytes.fill(padding);
            }
            piece.compute_in(self, addresses, bytes)
        };
        let (mut image, addresses) = self.compute_to(bases, thread_offset, put)?;
        image.stripes = taken(&stripes);
        Ok((image, addresses))
    }

    /// Stripes with memory for what each stores, which `make` makes.
    fn stripes(&self, make: impl Fn(usize) -> Vec<u8>) -> Result<Stripes> {
        let [code, constants, data] = self.stored_bytes.map(|bytes| {
            let bytes = usize::try_from(bytes).map_err(|_| Error::link("the image is too large"));
            Ok(Mutex::new(make(bytes?)))
        });
        Ok([code?, constants?, data?])
    }

    /// Computes the image in pieces. `put` computes one, for which each thread has a buffer, and stores it.
    fn compute_to(
        &self,
        bases: [ExecutorAddr; 3],
        thread_offset: i64,
        put: impl Fn(&Piece, &Addresses, &mut Vec<u8>) -> Result<Applied> + Sync,
    ) -> Result<(Image, Addresses)> {
        // Distances of dynamic thread-locals count from the start of their TLS block.
        let thread_offset = if self.tls_module.is_some() { 0 } else { thread_offset };
        self.check_bases(bases, thread_offset)?;
        let addresses = Addresses::new(self, bases, thread_offset);
        let pieces = stripes::pieces(self);
        let weight = self.stored_bytes.iter().sum();
        // The names come first: they are the largest pieces of work.
        let make = |buffer: &mut Vec<u8>, item| match item {
            0 => Ok(Part::Names(SymbolTable::collect(self, &addresses))),
            1 => Ok(Part::Functions(FunctionTable::collect(self, &addresses))),
            piece => put(&pieces[piece - 2], &addresses, buffer).map(Part::Bytes),
        };
        let parts = self.graph.threads.map_with(2 + pieces.len(), weight, Vec::new, make);
        let (mut names, mut functions) = (None, FunctionTable::default());
        let mut applied = Applied::default();
        for part in parts {
            match part? {
                Part::Names(table) => names = Some(table),
                Part::Functions(table) => functions = table,
                Part::Bytes(part) => applied += part,
            }
        }
        let symbols = names.unwrap_or_default().with_functions(functions);
        let image = Image::new(self, &addresses, bases, &applied, symbols);
        Ok((image, addresses))
    }
}

/// Stores a piece. One thread has them in order.
fn keep(stripes: &Stripes, prot: Prot, offset: u64, piece: &[u8]) {
    let start = usize::try_from(offset).unwrap_or(usize::MAX);
    let mut stripe = stripes[prot.index()].lock();
    if stripe.len() == start {
        stripe.extend_from_slice(piece);
        return;
    }
    let end = stripe.len().max(start + piece.len());
    stripe.resize(end, 0);
    stripe[start..][..piece.len()].copy_from_slice(piece);
}

/// The bytes that were stored.
fn taken(stripes: &Stripes) -> [Vec<u8>; Prot::ALL.len()] {
    stripes.each_ref().map(|stripe| std::mem::take(&mut *stripe.lock()))
}
