//! One call of a function of the library, with all that it lends.

use std::alloc::Layout;
use std::ffi::{CStr, CString};

use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::callback;
use super::handle::Handle;
use super::number::Number;
use super::sandbox::{ALIGNMENT, SCRATCH_BYTES, Sandbox, stale};
use super::structure::Structure;
use crate::ExecutorAddr;
use crate::controller::calls::StaticType;
use crate::controller::region::HeapBlock;
use crate::controller::{CallOptions, Function, OnDeadline, Process, WeakProcess};
use crate::error::{Error, Result};

/// A call that is about to be made, or was made. The memory that it lends to the library lives until it is dropped.
#[doc(hidden)]
#[derive(Debug)]
pub struct Call<'a> {
    sandbox: &'a Sandbox,
    /// Memory for what is small, and the bytes of it that are lent.
    scratch: Option<(HeapBlock, usize)>,
    /// Memory for what is large.
    blocks: Vec<HeapBlock>,
    /// The process of the handles among the arguments.
    wanted: Option<WeakProcess>,
    /// The process that was called.
    process: Option<Process>,
}

/// Memory that is lent to the library while a call runs.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub struct Lent {
    /// In the region.
    offset: usize,
    bytes: usize,
    address: ExecutorAddr,
}

impl Lent {
    /// The address for the library.
    #[must_use]
    pub fn address(self) -> ExecutorAddr {
        self.address
    }
}

impl<'a> Call<'a> {
    /// A call of the sandbox's library.
    #[must_use]
    pub fn new(sandbox: &'a Sandbox) -> Self {
        Self { sandbox, scratch: None, blocks: Vec::new(), wanted: None, process: None }
    }

    /// Lends memory whose content the library must not rely on.
    pub fn room(&mut self, bytes: usize, alignment: usize) -> Result<Lent> {
        let alignment = alignment.max(ALIGNMENT);
        if alignment == ALIGNMENT && bytes <= SCRATCH_BYTES {
            if self.scratch.is_none() {
                self.scratch = Some((self.sandbox.take_scratch()?, 0));
            }
            if let Some((scratch, used)) = &mut self.scratch
                && bytes <= SCRATCH_BYTES - *used
            {
                let (offset, address) =
                    (scratch.offset() + *used, scratch.address().get() + *used as u64);
                *used = (*used + bytes).next_multiple_of(ALIGNMENT).min(SCRATCH_BYTES);
                return Ok(Lent { offset, bytes, address: ExecutorAddr::new(address) });
            }
        }
        let layout = Layout::from_size_align(bytes, alignment)
            .map_err(|_| Error::invalid("more bytes than an address space has"))?;
        let block = self.sandbox.heap().allocate(layout)?;
        let lent = Lent { offset: block.offset(), bytes, address: block.address() };
        self.blocks.push(block);
        Ok(lent)
    }

    /// Lends a copy of bytes.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<Lent> {
        let lent = self.room(bytes.len(), ALIGNMENT)?;
        self.sandbox.heap().region().write_from(lent.offset, bytes);
        Ok(lent)
    }

    /// Lends memory for as many numbers.
    pub fn room_for<T>(&mut self, values: &[T]) -> Result<Lent> {
        self.room(size_of_val(values), ALIGNMENT)
    }

    /// Lends a copy of numbers.
    pub fn numbers<T: IntoBytes + Immutable>(&mut self, values: &[T]) -> Result<Lent> {
        self.bytes(values.as_bytes())
    }

    /// Lends a copy of a string. The address is null for none.
    pub fn text(&mut self, text: Option<&CStr>) -> Result<ExecutorAddr> {
        text.map_or(Ok(ExecutorAddr::NULL), |text| {
            Ok(self.bytes(text.to_bytes_with_nul())?.address)
        })
    }

    /// Lends a copy of structures or numbers in a row.
    pub fn structures<T: Structure>(&mut self, values: &[T]) -> Result<Lent> {
        let mut bytes = vec![0; T::BYTES * values.len()];
        let places = bytes.chunks_exact_mut(T::BYTES.max(1));
        values.iter().zip(places).for_each(|(value, place)| value.write(place));
        let lent = self.room(bytes.len(), T::ALIGNMENT)?;
        self.sandbox.heap().region().write_from(lent.offset, &bytes);
        Ok(lent)
    }

    /// Lends a copy of one structure or number.
    pub fn structure<T: Structure>(&mut self, value: &T) -> Result<Lent> {
        self.structures(std::slice::from_ref(value))
    }

    /// Lends a copy of one structure. The address is null for none.
    pub fn structure_or_null<T: Structure>(&mut self, value: Option<&T>) -> Result<ExecutorAddr> {
        value.map_or(Ok(ExecutorAddr::NULL), |value| Ok(self.structure(value)?.address))
    }

    /// The address of an object of the library. All of a call belong to one process.
    pub fn handle<T>(&mut self, handle: &Handle<T>) -> Result<ExecutorAddr> {
        if let Some(process) = handle.process() {
            match &self.wanted {
                Some(wanted) if !wanted.is_same(process) => return Err(stale()),
                _ => self.wanted = Some(process.clone()),
            }
        }
        Ok(handle.address())
    }

    /// The address of an object that the library may replace: null if its process has ended.
    pub fn handle_before<T>(&mut self, handle: &Handle<T>) -> Result<ExecutorAddr> {
        match handle.has_ended() {
            true => Ok(ExecutorAddr::NULL),
            false => self.handle(handle),
        }
    }

    /// The address of the function that the library calls for a closure.
    pub fn callback(&mut self, function: &Function<extern "C" fn()>) -> Result<ExecutorAddr> {
        let bound = function.bind()?;
        let process = bound.process()?.downgrade();
        match &self.wanted {
            Some(wanted) if !wanted.is_same(&process) => return Err(stale()),
            _ => self.wanted = Some(process),
        }
        bound.address()
    }

    /// Calls the function.
    pub fn run<F: StaticType>(
        &mut self,
        function: &Function<F>,
        arguments: F::Arguments<'_>,
    ) -> Result<F::Result> {
        let function = function.bind()?;
        let process = function.process()?;
        if self.wanted.as_ref().is_some_and(|wanted| !wanted.is_same(&process.downgrade())) {
            return Err(stale());
        }
        // The results mean something in this process only.
        self.wanted = Some(process.downgrade());
        let outcome =
            callback::run(self.sandbox.identity(), &process, || match self.sandbox.timeout() {
                None => function.call(arguments),
                Some(timeout) => {
                    let options = CallOptions::new().timeout(timeout).on_deadline(OnDeadline::Kill);
                    function.call_with(&options, arguments)
                }
            });
        self.process = Some(process);
        outcome
    }

    /// An object that the library has returned.
    pub fn returned<T>(&self, address: ExecutorAddr) -> Handle<T> {
        match &self.process {
            Some(process) => Handle::of_process(address, process),
            None => Handle::null(),
        }
    }

    /// Copies lent bytes back, as many as `out` has.
    pub fn fetch_bytes(&self, lent: Lent, out: &mut [u8]) -> Result<()> {
        if out.len() > lent.bytes {
            return Err(Error::invalid(format!(
                "{} bytes of {} that were lent",
                out.len(),
                lent.bytes
            )));
        }
        self.sandbox.heap().region().read_into(lent.offset, out);
        Ok(())
    }

    /// Copies lent numbers back, as many as `out` has.
    pub fn fetch_numbers<T: FromBytes + IntoBytes>(&self, lent: Lent, out: &mut [T]) -> Result<()> {
        self.fetch_bytes(lent, out.as_mut_bytes())
    }

    /// Copies lent structures back, as many as `out` has.
    pub fn fetch<T: Structure>(&self, lent: Lent, out: &mut [T]) -> Result<()> {
        let mut bytes = vec![0; T::BYTES * out.len()];
        self.fetch_bytes(lent, &mut bytes)?;
        let places = bytes.chunks_exact(T::BYTES.max(1));
        out.iter_mut().zip(places).for_each(|(value, place)| *value = T::read(place));
        Ok(())
    }

    /// A lent number, as the library has left it.
    pub fn number<T: Number>(&self, lent: Lent) -> Result<T> {
        let mut word = [0; 8];
        self.fetch_bytes(lent, &mut word[..<T as Number>::BYTES])?;
        Ok(T::from_word(u64::from_le_bytes(word)))
    }

    /// A copy of a string that the library has returned.
    pub fn text_of(&self, address: ExecutorAddr) -> Result<Option<CString>> {
        match &self.process {
            Some(process) => self.sandbox.text_in(process, address),
            None => Ok(None),
        }
    }

    /// A copy of a string that the library has returned, which `free` frees there.
    pub fn text_freed_by(
        &mut self,
        address: ExecutorAddr,
        free: &Function<extern "C" fn(ExecutorAddr)>,
    ) -> Result<Option<CString>> {
        let text = self.text_of(address)?;
        if !address.is_null() {
            self.run(free, (address,))?;
        }
        Ok(text)
    }
}

/// The number of elements that the library says.
#[doc(hidden)]
#[must_use]
pub fn count<T: Number>(number: T) -> usize {
    usize::try_from(number.to_word()).unwrap_or(usize::MAX)
}

/// The elements of a slice that the library has written; none if it says more than there are.
#[doc(hidden)]
pub fn first<T>(slice: &mut [T], count: usize) -> &mut [T] {
    slice.get_mut(..count).unwrap_or_default()
}

/// The length of a slice as the library's type.
#[doc(hidden)]
pub fn length<T: Number>(length: usize) -> Result<T> {
    let number = T::from_word(length as u64);
    match number.to_word() == length as u64 {
        true => Ok(number),
        false => Err(Error::invalid(format!(
            "a slice of {length} elements: the library's lengths have {} bytes",
            <T as Number>::BYTES
        ))),
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if let Some((scratch, _)) = self.scratch.take() {
            self.sandbox.return_scratch(scratch);
        }
    }
}
