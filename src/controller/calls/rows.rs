//! A C function called for each row of a table, in one message.

use std::convert::Infallible;
use std::marker::PhantomData;
use std::sync::Arc;

use super::function_type::{CFunctionType, Form, FunctionType};
use crate::call::typed::{HEAD_BYTES, TYPED_ROWS};
use crate::error::{Error, ErrorKind, Result};
use crate::types::Signature;
use crate::types::abi::{Shape, WORD_BYTES};

/// The type of a C function that is called for each row of a table. [`Function::rows`](crate::controller::Function::rows) makes one.
///
/// | argument | what it is |
/// |---|---|
/// | `first` | the arguments for the first row |
/// | `steps` | for each parameter, what each further row adds to it: bytes for a pointer; 0 unless it is an integer or a pointer |
/// | `rows` | the number of rows |
///
/// `call`, `call_with`, `submit` and `batch` take the three as a tuple. The executor makes the calls one after the other.
/// What they return is dropped, so the function stores its results to the region.
///
/// # Examples
///
/// ```standalone_crate
/// # farcall::executor::run_if_spawned();
/// # let process = farcall::controller::ExecutorBuilder::new().this_program().start()?.process()?;
/// use farcall::controller::region::{Access, Region};
/// use farcall::{ExecutorAddr, PerProt, Prot};
/// // void add(long *row, long n): add [rdi], rsi; ret
/// # let mut memory = process.allocate(PerProt { code: 4, ..PerProt::default() })?;
/// # memory.write(Prot::Code, &[0x48, 0x01, 0x37, 0xc3]);
/// # let code = memory.finalize();
/// let mut region = Region::new(4096, Access::ReadWrite)?;
/// region.as_mut_slice::<i64>()?.fill(7);
/// let attached = process.attach(&region)?;
/// let add = process.function::<extern "C" fn(ExecutorAddr, i64)>(code.address());
/// // Rows of 8 bytes; the second argument is 0, 1, 2 and so on.
/// add.rows().call(((attached.address(), 0), &[8, 1], 512))?;
/// let mut last = [0_i64];
/// region.read_into(511 * 8, &mut last);
/// assert_eq!(last, [7 + 511]);
/// # process.deallocate([code])?;
/// # Ok::<(), farcall::Error>(())
/// ```
#[derive(Debug)]
pub struct Rows<F> {
    /// No value has this type.
    _never: Infallible,
    _function: PhantomData<F>,
}

/// A function's form, and which words of its calls may have steps.
#[derive(Debug)]
pub struct RowsForm<T> {
    form: T,
    integer_words: Vec<Option<u16>>,
}

impl<T> RowsForm<T> {
    pub(in crate::controller) fn new<F: CFunctionType<Form = T>>(form: T) -> Arc<Self> {
        let integer_words = F::integer_words(&form);
        Arc::new(Self { form, integer_words })
    }

    /// Appends what each further row adds to the words of the first one.
    fn append_steps<F: CFunctionType<Form = T>>(
        &self,
        steps: &[i64],
        message: &mut Vec<u8>,
    ) -> Result<()> {
        let name = || F::name(&self.form);
        let parameters = self.integer_words.len();
        if steps.len() != parameters {
            let given = steps.len();
            let why = format!("{}: {given} steps for {parameters} parameters", name());
            return Err(Error::new(ErrorKind::TypeMismatch, why));
        }
        let from = message.len();
        message.resize(from + (from - HEAD_BYTES), 0);
        for (number, (step, word)) in (1..).zip(steps.iter().zip(&self.integer_words)) {
            let Some(word) = word else {
                if *step == 0 {
                    continue;
                }
                let why = format!(
                    "{}: parameter {number} is no integer or pointer, so its step is 0",
                    name()
                );
                return Err(Error::new(ErrorKind::TypeMismatch, why));
            };
            let at = from + usize::from(*word) * WORD_BYTES;
            message[at..at + WORD_BYTES].copy_from_slice(&step.to_le_bytes());
        }
        Ok(())
    }
}

impl<F: CFunctionType> Form for Rows<F> {
    const CALLED_BY: &str = TYPED_ROWS;

    type Form = Arc<RowsForm<F::Form>>;

    fn shape(form: &Self::Form) -> Option<Shape> {
        F::shape(&form.form)
    }

    fn name(form: &Self::Form) -> String {
        format!("{} for rows", F::name(&form.form))
    }

    fn prototype(form: &Self::Form) -> Option<Signature> {
        F::prototype(&form.form)
    }
}

impl<F: CFunctionType> FunctionType for Rows<F> {
    type Arguments<'a> = (F::Arguments<'a>, &'a [i64], u64);
    type Result = ();

    fn with_message<T>(
        form: &Self::Form,
        head: &[u8; HEAD_BYTES],
        (first, steps, rows): Self::Arguments<'_>,
        send: impl FnOnce(&[u8]) -> Result<T>,
    ) -> Result<T> {
        F::with_message(&form.form, head, first, |first| {
            let mut message = Vec::with_capacity(2 * first.len());
            message.extend_from_slice(first);
            form.append_steps::<F>(steps, &mut message)?;
            message.extend_from_slice(&rows.to_le_bytes());
            send(&message)
        })
    }

    fn decode(form: &Self::Form, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        Err(Error::violation(format!(
            "{} bytes for the result of {}",
            bytes.len(),
            Self::name(form)
        )))
    }
}
