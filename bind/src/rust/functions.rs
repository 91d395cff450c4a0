//! Functions as methods.

use std::collections::BTreeSet;

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

use super::{callbacks, identifier, number, record_type};
use crate::header::Number;
use crate::plan::{Element, Outcome, Plan, PlannedFunction, Role};

/// The functions by name, as fields.
pub(super) fn fields(plan: &Plan) -> TokenStream {
    let functions = plan.functions.iter().map(|function| {
        let (name, kind) = (field(&function.name), kind(function));
        quote!(#name: ::farcall::controller::Function<#kind>,)
    });
    let frees = frees(plan).into_iter().map(|name| {
        let name = free_field(name);
        quote!(#name: ::farcall::controller::Function<extern "C" fn(::farcall::ExecutorAddr)>,)
    });
    quote!(#(#functions)* #(#frees)*)
}

/// The values of the fields.
pub(super) fn finds(plan: &Plan) -> TokenStream {
    let functions = plan.functions.iter().map(|function| (field(&function.name), &function.name));
    let frees = frees(plan).into_iter().map(|name| (free_field(name), name));
    let finds =
        functions.chain(frees).map(|(field, name)| quote!(#field: sandbox.function(#name),));
    quote!(#(#finds)*)
}

/// The functions that free text.
fn frees(plan: &Plan) -> BTreeSet<&String> {
    let mut names = BTreeSet::new();
    for function in &plan.functions {
        names.extend(function.parameters.iter().filter_map(|one| match &one.role {
            Role::OutText(free) => Some(free),
            _ => None,
        }));
        if let Outcome::Text(Some(free)) = &function.result {
            names.insert(free);
        }
    }
    names
}

fn field(name: &str) -> Ident {
    format_ident!("function_{}", plain(name))
}

fn free_field(name: &str) -> Ident {
    format_ident!("free_{}", plain(name))
}

/// A name without the mark of a keyword.
fn plain(name: &str) -> String {
    identifier(name).to_string().trim_start_matches("r#").to_owned()
}

/// The type of the C function.
fn kind(function: &PlannedFunction) -> TokenStream {
    let parameters = function.parameters.iter().map(|one| match &one.role {
        Role::Number(one) | Role::Length(_, one) => number(*one),
        _ => quote!(::farcall::ExecutorAddr),
    });
    let result = match &function.result {
        Outcome::Void => quote!(),
        Outcome::Number(one, _) => {
            let one = number(*one);
            quote!(-> #one)
        }
        Outcome::Text(_) | Outcome::Handle(_) | Outcome::Address => {
            quote!(-> ::farcall::ExecutorAddr)
        }
    };
    quote!(extern "C" fn(#(#parameters),*) #result)
}

/// The method of a function.
pub(super) fn method(function: &PlannedFunction) -> TokenStream {
    let PlannedFunction { name, declaration, parameters, .. } = function;
    let about = format!(" `{declaration}`");
    let (field, name) = (field(name), method_name(name));
    let mut parts = Parts::default();
    for (at, parameter) in parameters.iter().enumerate() {
        parts.add(at, &identifier(&parameter.name), &parameter.role, function);
    }
    let (kind, outcome) = outcome(&function.result);
    let Parts { parameters, before, arguments, after, results, wraps, has_lifetime } = parts;
    let lifetime = has_lifetime.then(|| quote!(<'a>));
    let (kinds, values): (Vec<_>, Vec<_>) = results.into_iter().unzip();
    let kinds: Vec<_> = kind.into_iter().chain(kinds).collect();
    let values: Vec<_> = outcome.iter().map(|_| quote!(result)).chain(values).collect();
    let (kind, value) = match (&kinds[..], &values[..]) {
        ([kind], [value]) => (quote!(#kind), quote!(#value)),
        _ => (quote!((#(#kinds),*)), quote!((#(#values),*))),
    };
    let is_made = matches!(
        &function.result,
        Outcome::Text(_) | Outcome::Handle(_) | Outcome::Number(_, true)
    );
    let result = outcome.filter(|_| is_made).map(|outcome| quote!(let result = #outcome;));
    let mut body = quote! {
        let mut call = ::farcall::bind::Call::new(&self.sandbox);
        #(#before)*
        let result = call.run(&self.functions.#field, (#(#arguments,)*))?;
        #(#after)*
        #result
        Ok(#value)
    };
    for wrap in wraps.into_iter().rev() {
        body = wrap(body);
    }
    quote! {
        #[doc = #about]
        pub fn #name #lifetime (&self, #(#parameters),*) -> ::farcall::Result<#kind> {
            #body
        }
    }
}

/// Three names are the binding's own.
pub(super) fn method_name(name: &str) -> Ident {
    match name {
        "start" | "start_with" | "sandbox" => format_ident!("{name}_"),
        _ => identifier(name),
    }
}

/// The type of a result, and its value by `result`, unless it is void.
fn outcome(outcome: &Outcome) -> (Option<TokenStream>, Option<TokenStream>) {
    let (kind, value) = match outcome {
        Outcome::Void => return (None, None),
        Outcome::Number(one, is_untrusted) => {
            let one = number(*one);
            match is_untrusted {
                true => (
                    quote!(::farcall::bind::Untrusted<#one>),
                    quote!(::farcall::bind::Untrusted::new(result)),
                ),
                false => (one, quote!(result)),
            }
        }
        Outcome::Text(None) => (quote!(Option<::std::ffi::CString>), quote!(call.text_of(result)?)),
        Outcome::Text(Some(free)) => {
            let free = free_field(free);
            (
                quote!(Option<::std::ffi::CString>),
                quote!(call.text_freed_by(result, &self.functions.#free)?),
            )
        }
        Outcome::Handle(name) => {
            let name = record_type(name);
            (quote!(::farcall::bind::Handle<#name>), quote!(call.returned(result)))
        }
        Outcome::Address => (quote!(::farcall::ExecutorAddr), quote!(result)),
    };
    (Some(kind), Some(value))
}

type Wrap = Box<dyn FnOnce(TokenStream) -> TokenStream>;

/// The parts of a method, in the order of the parameters.
#[derive(Default)]
struct Parts {
    parameters: Vec<TokenStream>,
    before: Vec<TokenStream>,
    arguments: Vec<TokenStream>,
    after: Vec<TokenStream>,
    /// Types and values beside the result.
    results: Vec<(TokenStream, TokenStream)>,
    /// Loans of closures.
    wraps: Vec<Wrap>,
    has_lifetime: bool,
}

impl Parts {
    fn add(&mut self, at: usize, name: &Ident, role: &Role, function: &PlannedFunction) {
        let lent = format_ident!("lent_{at}");
        let address = quote!(#lent.address());
        match role {
            Role::Number(one) => {
                let one = number(*one);
                self.parameter(quote!(#name: #one), quote!(#name));
            }
            Role::Text => {
                self.has_lifetime = true;
                self.before.push(quote!(let #lent = call.text(#name.into())?;));
                self.parameter(
                    quote!(#name: impl ::core::convert::Into<Option<&'a ::core::ffi::CStr>>),
                    quote!(#lent),
                );
            }
            Role::Input(element) => {
                let kind = element_type(element);
                self.before.push(lend(&lent, name, element));
                self.parameter(quote!(#name: &[#kind]), address);
            }
            Role::Output { element, length, is_read } => {
                let kind = element_type(element);
                self.before.push(match is_read {
                    true => lend(&lent, name, element),
                    false => quote!(let #lent = call.room_for(&*#name)?;),
                });
                let fetch = fetch(element);
                self.after.push(match length {
                    None => quote!(call.#fetch(#lent, #name)?;),
                    Some(length) => {
                        let (count, lent_count) =
                            (format_ident!("count_{at}"), format_ident!("lent_{length}"));
                        let Some(Role::LengthPointer(_, one)) =
                            function.parameters.get(*length).map(|one| &one.role)
                        else {
                            return;
                        };
                        let one = number(*one);
                        self.results.push((
                            quote!(::farcall::bind::Untrusted<usize>),
                            quote!(::farcall::bind::Untrusted::new(#count)),
                        ));
                        quote! {
                            let #count = ::farcall::bind::count(call.number::<#one>(#lent_count)?);
                            call.#fetch(#lent, ::farcall::bind::first(#name, #count))?;
                        }
                    }
                });
                self.parameter(quote!(#name: &mut [#kind]), address);
            }
            Role::Length(of, one) => {
                let (of, one) = (identifier(&function.parameters[*of].name), number(*one));
                self.arguments.push(quote!(::farcall::bind::length::<#one>(#of.len())?));
            }
            Role::LengthPointer(of, one) => {
                let (of, one) = (identifier(&function.parameters[*of].name), number(*one));
                self.before
                    .push(quote!(let #lent = call.structure(&::farcall::bind::length::<#one>(#of.len())?)?;));
                self.arguments.push(address);
            }
            Role::InputStructure(kind) => {
                let kind = record_type(kind);
                self.has_lifetime = true;
                self.before
                    .push(quote!(let #lent = call.structure_or_null::<#kind>(#name.into())?;));
                self.parameter(
                    quote!(#name: impl ::core::convert::Into<Option<&'a #kind>>),
                    quote!(#lent),
                );
            }
            Role::InOut(element) => {
                let kind = element_type(element);
                self.in_out(&lent, name, &kind);
            }
            Role::InOutAddress => self.in_out(&lent, name, &quote!(::farcall::ExecutorAddr)),
            Role::Handle(kind) => {
                let kind = record_type(kind);
                self.parameter(quote!(#name: &::farcall::bind::Handle<#kind>), quote!(#lent));
                self.before.push(quote!(let #lent = call.handle(#name)?;));
            }
            Role::OutHandle(kind) => {
                let kind = record_type(kind);
                self.before.push(quote! {
                    let #lent = call.handle_before(#name)?;
                    let #lent = call.structure(&#lent)?;
                });
                self.after.push(quote!(*#name = call.returned(call.number(#lent)?);));
                self.parameter(quote!(#name: &mut ::farcall::bind::Handle<#kind>), address);
            }
            Role::OutText(free) => {
                let free = free_field(free);
                self.before
                    .push(quote!(let #lent = call.structure(&::farcall::ExecutorAddr::NULL)?;));
                self.after.push(quote!(*#name = call.text_freed_by(call.number(#lent)?, &self.functions.#free)?;));
                self.parameter(quote!(#name: &mut Option<::std::ffi::CString>), address);
            }
            Role::Address => self.parameter(quote!(#name: ::farcall::ExecutorAddr), quote!(#name)),
            Role::Callback(callback, data) => {
                let kind = callbacks::closure_type(callback);
                let (by_words, stub) =
                    (callbacks::by_words(name, callback), callbacks::stub(callback));
                let lent_data = format_ident!("lent_{data}");
                self.before.push(quote! {
                    let #lent = match #lent_data.is_null() {
                        true => ::farcall::ExecutorAddr::NULL,
                        false => call.callback(&*#stub?)?,
                    };
                });
                let name_of_loan = name.clone();
                self.wraps.push(Box::new(move |body| quote! {
                    #by_words
                    let #name_of_loan = #name_of_loan.as_mut().map(|closure| closure as &mut ::farcall::bind::Callback<'_>);
                    ::farcall::bind::lend(&self.sandbox, #name_of_loan, |#lent_data| { #body })
                }));
                self.parameter(quote!(#name: #kind), quote!(#lent));
            }
            Role::CallbackData(_) => self.arguments.push(quote!(#lent)),
        }
    }

    fn parameter(&mut self, parameter: TokenStream, argument: TokenStream) {
        self.parameters.push(parameter);
        self.arguments.push(argument);
    }

    /// A value that the library may change.
    fn in_out(&mut self, lent: &Ident, name: &Ident, kind: &TokenStream) {
        self.before.push(quote!(let #lent = call.structure(&*#name)?;));
        self.after.push(quote!(call.fetch(#lent, std::slice::from_mut(#name))?;));
        self.parameter(quote!(#name: &mut #kind), quote!(#lent.address()));
    }
}

fn element_type(element: &Element) -> TokenStream {
    match element {
        Element::Number(Number::Char) => quote!(u8),
        Element::Number(one) => number(*one),
        Element::Record(name) => record_type(name),
    }
}

/// True for elements that are copied as they are.
fn is_plain(element: &Element) -> bool {
    !matches!(element, Element::Record(_) | Element::Number(Number::Bool))
}

fn lend(lent: &Ident, name: &Ident, element: &Element) -> TokenStream {
    match is_plain(element) {
        true => quote!(let #lent = call.numbers(&*#name)?;),
        false => quote!(let #lent = call.structures(&*#name)?;),
    }
}

fn fetch(element: &Element) -> Ident {
    match is_plain(element) {
        true => format_ident!("fetch_numbers"),
        false => format_ident!("fetch"),
    }
}
