//! A function that can be isolated, taken apart.

use syn::{
    Error, FnArg, GenericParam, Ident, ItemFn, Pat, PatIdent, PatType, Result, Signature, Type,
};

use crate::form::{Outcome, Parameter};

/// A function, and how its values cross.
pub(crate) struct Function {
    pub(crate) item: ItemFn,
    pub(crate) parameters: Vec<(Ident, Type, Parameter)>,
    pub(crate) outcome: Outcome,
}

impl Function {
    /// # Errors
    ///
    /// All that cannot cross, each at its place.
    pub(crate) fn new(item: ItemFn) -> Result<Self> {
        let mut refused = Refused(None);
        refused.add(check(&item.sig));
        let mut parameters = Vec::new();
        for (at, input) in item.sig.inputs.iter().enumerate() {
            match parameter(at, input) {
                Ok(parameter) => parameters.push(parameter),
                Err(error) => refused.add(Err(error)),
            }
        }
        match (Outcome::new(&item.sig.output), refused.0) {
            (Ok(outcome), None) => Ok(Self { item, parameters, outcome }),
            (Ok(_), Some(refused)) => Err(refused),
            (Err(error), None) => Err(error),
            (Err(error), Some(mut refused)) => {
                refused.combine(error);
                Err(refused)
            }
        }
    }

    pub(crate) fn is_async(&self) -> bool {
        self.item.sig.asyncness.is_some()
    }
}

/// The errors so far.
struct Refused(Option<Error>);

impl Refused {
    fn add(&mut self, outcome: Result<()>) {
        let Err(error) = outcome else { return };
        match &mut self.0 {
            Some(others) => others.combine(error),
            None => self.0 = Some(error),
        }
    }
}

/// Refuses what a function cannot be.
fn check(signature: &Signature) -> Result<()> {
    let mut refused = Refused(None);
    let mut refuse = |place: &dyn quote::ToTokens, message: &str| {
        refused.add(Err(Error::new_spanned(place.to_token_stream(), message)));
    };
    if let Some(word) = &signature.constness {
        refuse(word, "a `const fn` runs in the compiler, which has no executor");
    }
    if let Some(word) = &signature.unsafety {
        refuse(
            word,
            "what the caller of an `unsafe fn` promises is about memory of its own process; isolate a safe function",
        );
    }
    if let Some(word) = &signature.abi {
        refuse(word, "an isolated function is called from Rust; leave the ABI out");
    }
    if let Some(dots) = &signature.variadic {
        refuse(dots, "the number of arguments of an isolated function is fixed");
    }
    for generic in &signature.generics.params {
        if !matches!(generic, GenericParam::Lifetime(_)) {
            refuse(
                generic,
                "a generic function has no address before it is used; isolate a function of known types that calls it",
            );
        }
    }
    refused.0.map_or(Ok(()), Err)
}

/// A parameter, under a name that the attribute can write.
fn parameter(at: usize, input: &FnArg) -> Result<(Ident, Type, Parameter)> {
    match input {
        FnArg::Receiver(this) => Err(Error::new_spanned(
            this,
            "a method with `self` does not cross; isolate a function that takes the value as an argument",
        )),
        FnArg::Typed(PatType { pat, ty, .. }) => {
            let name = match &**pat {
                Pat::Ident(PatIdent { ident, subpat: None, .. }) => ident.clone(),
                other => {
                    let name = format!("argument_{at}");
                    Ident::new(&name, syn::spanned::Spanned::span(other))
                }
            };
            Ok((name, (**ty).clone(), Parameter::new(ty)?))
        }
    }
}
