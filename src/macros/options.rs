//! The options behind the attribute's name.

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Error, Expr, ExprLit, Ident, Lit, LitInt, LitStr, MetaNameValue, Result, Token};

/// The options of a function, as calls of methods of `farcall::isolate::Options`.
pub(crate) struct Options {
    pub(crate) methods: TokenStream,
    /// The option that ends calls which wait.
    pub(crate) timeout: Option<Ident>,
}

const NAMES: &str = "confine, memory, timeout, processes, restart, executor";

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let all = Punctuated::<MetaNameValue, Token![,]>::parse_terminated(input)?;
        let mut options = Self { methods: TokenStream::new(), timeout: None };
        let mut known = Vec::new();
        for option in all {
            let Some(name) = option.path.get_ident() else {
                return Err(Error::new_spanned(option.path, format!("the options are {NAMES}")));
            };
            if known.contains(name) {
                return Err(Error::new_spanned(name, format!("`{name}` is here twice")));
            }
            known.push(name.clone());
            options.add(name, &option.value)?;
        }
        Ok(options)
    }
}

impl Options {
    fn add(&mut self, name: &Ident, value: &Expr) -> Result<()> {
        let method = match name.to_string().as_str() {
            "confine" => {
                let level = text(value, "\"isolated\" or \"strict\"")?;
                match level.value().as_str() {
                    "isolated" => quote!(.isolated()),
                    "strict" => quote!(.strict()),
                    _ => {
                        let message = "the levels are \"isolated\" and \"strict\"";
                        return Err(Error::new_spanned(level, message));
                    }
                }
            }
            "memory" => {
                let bytes = with_unit(value, "\"512 MiB\"", MEMORY)?;
                quote!(.memory_bytes(#bytes))
            }
            "timeout" => {
                let milliseconds = with_unit(value, "\"250ms\"", TIMES)?;
                self.timeout = Some(name.clone());
                quote!(.timeout_ms(#milliseconds))
            }
            "processes" => {
                let count = number(value, "a number of processes")?;
                if count.base10_parse::<usize>()? == 0 {
                    return Err(Error::new_spanned(count, "an executor has at least one process"));
                }
                quote!(.processes(#count))
            }
            "restart" => {
                let count = number(value, "a number of restarts within a minute")?;
                count.base10_parse::<u32>()?;
                quote!(.restarts_per_minute(#count))
            }
            "executor" => {
                let path = text(value, "the path of a copy of this program")?;
                quote!(.executor(#path))
            }
            _ => return Err(Error::new_spanned(name, format!("the options are {NAMES}"))),
        };
        self.methods.extend(method);
        Ok(())
    }
}

/// Units, and how many of the smallest one each is.
type Units = &'static [(&'static str, u64)];

const TIMES: Units = &[("ms", 1), ("s", 1000), ("min", 60_000)];
const MEMORY: Units = &[("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];

/// A number with a unit, in the smallest unit.
fn with_unit(value: &Expr, example: &str, units: Units) -> Result<u64> {
    let text = text(value, example)?;
    let written = text.value();
    let digits = written.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(written.len());
    let (number, unit) = written.split_at(digits);
    let factor = units.iter().find(|(name, _)| *name == unit.trim()).map(|(_, factor)| *factor);
    let product = factor.and_then(|factor| number.parse::<u64>().ok()?.checked_mul(factor));
    match product {
        Some(product @ 1..) => Ok(product),
        _ => {
            let names: Vec<_> = units.iter().map(|(name, _)| *name).collect();
            let message = format!(
                "a whole number above 0 and a unit ({}), such as {example}",
                names.join(", ")
            );
            Err(Error::new_spanned(text, message))
        }
    }
}

fn text(value: &Expr, due: &str) -> Result<LitStr> {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Ok(text.clone()),
        other => Err(Error::new_spanned(other, format!("expected {due}"))),
    }
}

fn number(value: &Expr, due: &str) -> Result<LitInt> {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) => Ok(number.clone()),
        other => Err(Error::new_spanned(other, format!("expected {due}"))),
    }
}
