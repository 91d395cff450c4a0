//! The roles of parameters, by hints, else by what headers usually mean. Each guess is told.

use std::collections::HashSet;

use crate::Error;
use crate::header::{Function, Header, Number, Parameter, Prototype, Type};
use crate::hints::{FunctionHints, Hints, ParameterHint, RoleHint, StructureHint};
use crate::plan::{
    Callback, CallbackRole, Element, Outcome, Plan, PlannedFunction, PlannedParameter, Role,
};
use crate::records;

/// The most parameters of a call.
const PARAMETERS_MAX: usize = 16;
/// Names of lengths. The name of what they count may be in front.
const LENGTHS: [&str; 24] = [
    "len", "length", "size", "sz", "count", "cnt", "n", "nb", "nbyte", "nbytes", "bytes", "num",
    "nmemb", "nitems", "nelem", "nelems", "cap", "capacity", "buflen", "bufsize", "datalen",
    "datasize", "inputlen", "max",
];

/// Plans a binding.
///
/// # Errors
///
/// When a hint names a function, a parameter or a structure that the header does not have.
pub(crate) fn plan(header: &Header, hints: &Hints) -> Result<Plan, Error> {
    let guessing = Guessing::new(header, hints)?;
    let mut plan = Plan::default();
    for function in header.functions.iter().filter(|function| hints.wants(&function.name)) {
        let none = FunctionHints::default();
        let hints = hints.functions.get(&function.name).unwrap_or(&none);
        match guessing.function(function, hints, &mut plan.guesses)? {
            Ok(planned) => plan.functions.push(planned),
            Err(reason) => plan.left_out.push((function.name.clone(), reason)),
        }
    }
    let names = records::named(&plan);
    plan.opaque =
        names.iter().filter(|name| !guessing.complete.contains(name.as_str())).cloned().collect();
    plan.records = records::reachable(&header.records, names);
    plan.constants =
        header.constants.iter().filter(|one| hints.wants(&one.name)).cloned().collect();
    Ok(plan)
}

struct Guessing<'a> {
    /// Complete structures.
    complete: HashSet<&'a str>,
    /// Complete structures that stay with the library.
    stays: HashSet<&'a str>,
}

impl<'a> Guessing<'a> {
    fn new(header: &'a Header, hints: &'a Hints) -> Result<Self, Error> {
        let names: HashSet<_> = header.functions.iter().map(|one| one.name.as_str()).collect();
        if let Some(name) = hints.functions.keys().find(|name| !names.contains(name.as_str())) {
            return Err(Error::new(format!("hints: no function {name} is bound")));
        }
        let complete: HashSet<_> = header.records.iter().map(|one| one.name.as_str()).collect();
        if let Some(name) = hints.structures.keys().find(|name| !complete.contains(name.as_str())) {
            return Err(Error::new(format!("hints: there is no structure {name}")));
        }
        // The library makes its objects itself: it returns them, or stores them.
        let mut stays = HashSet::new();
        for function in header.functions.iter().filter(|one| hints.wants(&one.name)) {
            let result = record_behind(&function.prototype.result);
            let stored = function.prototype.parameters.iter().filter_map(|one| match &one.kind {
                Type::Pointer(target, false) => record_behind(target),
                _ => None,
            });
            stays.extend(result.into_iter().chain(stored).filter(|name| complete.contains(name)));
        }
        stays.extend(
            header.records.iter().filter(|one| one.is_flexible).map(|one| one.name.as_str()),
        );
        for (name, hint) in &hints.structures {
            match hint {
                StructureHint::Stays => stays.insert(name.as_str()),
                StructureHint::Copied => stays.remove(name.as_str()),
            };
        }
        Ok(Self { complete, stays })
    }

    /// True for structures that calls copy.
    fn is_copied(&self, name: &str) -> bool {
        self.complete.contains(name) && !self.stays.contains(name)
    }

    fn function(
        &self,
        function: &Function,
        hints: &FunctionHints,
        guesses: &mut Vec<String>,
    ) -> Result<Result<PlannedFunction, String>, Error> {
        let prototype = &function.prototype;
        if let Some(reason) = left_out(prototype, hints) {
            return Ok(Err(reason));
        }
        let mut roles = Roles {
            guessing: self,
            function,
            hints,
            names: names(&prototype.parameters),
            roles: vec![None; prototype.parameters.len()],
            guesses: Vec::new(),
        };
        roles.check_names()?;
        for at in 0..prototype.parameters.len() {
            if roles.roles[at].is_none() {
                let role = roles.role(at)?;
                roles.roles[at] = Some(role);
            }
        }
        let result = roles.result();
        let Roles { names, roles, guesses: new, .. } = roles;
        guesses.extend(new);
        let parameters = names
            .into_iter()
            .zip(roles.into_iter().flatten())
            .map(|(name, role)| PlannedParameter { name, role });
        Ok(Ok(PlannedFunction {
            name: function.name.clone(),
            declaration: function.declaration.clone(),
            parameters: parameters.collect(),
            result,
        }))
    }
}

/// Why a function is not bound.
fn left_out(prototype: &Prototype, hints: &FunctionHints) -> Option<String> {
    if hints.skip {
        return Some("the hints leave it out".to_owned());
    }
    if prototype.is_variadic {
        return Some("it takes any number of arguments".to_owned());
    }
    if prototype.parameters.len() > PARAMETERS_MAX {
        return Some(format!(
            "it has {} parameters, more than {PARAMETERS_MAX}",
            prototype.parameters.len()
        ));
    }
    let kinds = prototype.parameters.iter().map(|one| &one.kind).chain([&prototype.result]);
    kinds.filter_map(by_value).next()
}

/// Why a type does not cross by value.
fn by_value(kind: &Type) -> Option<String> {
    match kind {
        Type::Void | Type::Number(_) | Type::Pointer(..) | Type::Array(..) => None,
        Type::Record(name) => Some(format!("it passes the structure {name} by value")),
        Type::Other(name) => Some(format!("the type {name} does not cross")),
        Type::Function(_) => Some("a function is passed by value".to_owned()),
    }
}

/// The structure that a pointer points to.
fn record_behind(kind: &Type) -> Option<&str> {
    match kind {
        Type::Pointer(target, _) => match &**target {
            Type::Record(name) => Some(name),
            _ => None,
        },
        _ => None,
    }
}

/// Names that the code of a binding has for its own values.
const RESERVED: [&str; 8] = ["call", "result", "sandbox", "closure", "words", "self", "Self", "_"];

/// A name for each parameter, each once.
fn names(parameters: &[Parameter]) -> Vec<String> {
    let mut known = HashSet::new();
    let mut names = Vec::new();
    for (at, one) in parameters.iter().enumerate() {
        let mut name = match one.name.as_str() {
            "" => format!("argument_{at}"),
            name => name.to_owned(),
        };
        let is_own = |name: &str| {
            let numbered =
                ["lent_", "count_", "callback_"].iter().any(|start| name.starts_with(start));
            numbered || RESERVED.contains(&name)
        };
        while is_own(&name) || !known.insert(name.clone()) {
            name = format!("the_{name}");
        }
        names.push(name);
    }
    names
}

/// The roles of one function's parameters.
struct Roles<'a> {
    guessing: &'a Guessing<'a>,
    function: &'a Function,
    hints: &'a FunctionHints,
    names: Vec<String>,
    roles: Vec<Option<Role>>,
    guesses: Vec<String>,
}

impl Roles<'_> {
    fn check_names(&self) -> Result<(), Error> {
        self.hints.parameters.keys().try_for_each(|name| self.find(name).map(drop))
    }

    /// The number of the parameter that a hint names.
    fn find(&self, name: &str) -> Result<usize, Error> {
        let number = name.parse().ok().filter(|at| *at < self.names.len());
        let at = self.names.iter().position(|one| one == name).or(number);
        at.ok_or_else(|| {
            Error::new(format!("hints: {} has no parameter {name}", self.function.name))
        })
    }

    fn hint(&self, at: usize) -> ParameterHint {
        let number = at.to_string();
        self.hints
            .parameters
            .get(&self.names[at])
            .or_else(|| self.hints.parameters.get(&number))
            .cloned()
            .unwrap_or_default()
    }

    fn guess(&mut self, at: usize, what: &str) {
        let Function { place, name, .. } = self.function;
        self.guesses.push(format!("{place}: {name}: {} {what}", self.names[at]));
    }

    fn kind(&self, at: usize) -> Option<&Type> {
        Some(&self.function.prototype.parameters.get(at)?.kind)
    }

    fn role(&mut self, at: usize) -> Result<Role, Error> {
        let hint = self.hint(at);
        let (target, is_const) = match self.kind(at) {
            Some(Type::Number(number)) => return Ok(Role::Number(*number)),
            Some(Type::Pointer(target, is_const)) => ((**target).clone(), *is_const),
            Some(Type::Array(_, count)) => {
                let what = format!("is an array of {count}, and is an address");
                self.guess(at, &what);
                return Ok(Role::Address);
            }
            _ => return Ok(Role::Address),
        };
        if hint.role == Some(RoleHint::Address) {
            return Ok(Role::Address);
        }
        match &target {
            Type::Function(prototype) => self.callback(at, prototype, &hint),
            Type::Record(name) if !self.guessing.is_copied(name) => Ok(Role::Handle(name.clone())),
            Type::Pointer(inner, is_inner_const) => {
                Ok(self.pointer_to_pointer(at, (inner, [is_const, *is_inner_const]), &hint))
            }
            _ => match self.length(at, &hint)? {
                Some(length) => self.slice(at, &target, is_const, length, &hint),
                None => Ok(self.single(at, &target, is_const, &hint)),
            },
        }
    }

    /// The parameter that has the length of a slice: the hint's, or the next one by its name.
    fn length(&mut self, at: usize, hint: &ParameterHint) -> Result<Option<usize>, Error> {
        if let Some(name) = &hint.length {
            return self.find(name).map(Some);
        }
        let next = at + 1;
        let is_text = matches!(self.kind(at), Some(Type::Pointer(target, true)) if matches!(**target, Type::Number(Number::Char)));
        let kind = match self.kind(next) {
            Some(Type::Number(number)) => number.is_integer() && number.bytes() >= 4,
            Some(Type::Pointer(target, false)) => {
                matches!(**target, Type::Number(number) if number.is_integer() && number.bytes() >= 4)
                    && !is_text
            }
            _ => false,
        };
        // A size and a number of elements are a length together, which only the caller can compute.
        let is_product = matches!(self.kind(next + 1), Some(Type::Number(number)) if number.is_integer())
            && is_length(&self.names[next + 1], "");
        let Some(element_bytes) =
            self.element_bytes(at).filter(|_| kind && self.roles[next].is_none() && !is_product)
        else {
            return Ok(None);
        };
        let name = &self.names[next];
        // A number of bytes counts no larger elements.
        let is_count = element_bytes == 1 || !name.to_ascii_lowercase().contains("byte");
        if is_count && is_length(name, &self.names[at]) && !self.hints.parameters.contains_key(name)
        {
            let what = format!("is taken to have {name} elements");
            self.guess(at, &what);
            return Ok(Some(next));
        }
        Ok(None)
    }

    /// The bytes of an element of a slice, if it can be copied.
    fn element_bytes(&self, at: usize) -> Option<u64> {
        let Some(Type::Pointer(target, _)) = self.kind(at) else { return None };
        match Element::of(target)? {
            Element::Number(number) => Some(number.bytes()),
            Element::Record(name) => self.guessing.is_copied(&name).then_some(u64::MAX),
        }
    }

    /// True where the next parameter is an integer, which may be a length.
    fn may_have_length(&self, at: usize) -> bool {
        matches!(self.kind(at + 1), Some(Type::Number(number)) if number.is_integer())
    }

    fn slice(
        &mut self,
        at: usize,
        target: &Type,
        is_const: bool,
        length: usize,
        hint: &ParameterHint,
    ) -> Result<Role, Error> {
        let function = &self.function.name;
        let refused = |why: &str| {
            Err(Error::new(format!("hints: {function}: the length of parameter {at} {why}")))
        };
        let Some(element) = Element::of(target) else {
            return refused("counts nothing that can be copied");
        };
        if length == at || !matches!(self.roles[length], None | Some(Role::Number(_))) {
            return refused("is another parameter's already");
        }
        let (role, is_stored) = match self.kind(length) {
            Some(Type::Number(number)) if number.is_integer() => (Role::Length(at, *number), false),
            Some(Type::Pointer(target, false)) => match **target {
                Type::Number(number) if number.is_integer() => {
                    (Role::LengthPointer(at, number), true)
                }
                _ => return refused("is no integer"),
            },
            _ => return refused("is no integer"),
        };
        self.roles[length] = Some(role);
        let is_input = hint.role == Some(RoleHint::Input) || (hint.role.is_none() && is_const);
        if is_input && !is_stored {
            return Ok(Role::Input(element));
        }
        // Where the library says how much it has written, the rest of the caller's slice stays as it was.
        let is_read = hint.role == Some(RoleHint::Inout) || !is_stored;
        Ok(Role::Output { element, length: is_stored.then_some(length), is_read })
    }

    /// A pointer without a length.
    fn single(&mut self, at: usize, target: &Type, is_const: bool, hint: &ParameterHint) -> Role {
        match (target, is_const) {
            (Type::Number(Number::Char), true) => {
                if self.may_have_length(at) && hint.role.is_none() {
                    self.guess(at, "is taken to be text with a zero byte at its end");
                }
                Role::Text
            }
            (Type::Record(name), true) => {
                if self.may_have_length(at) && hint.role.is_none() {
                    self.guess(at, "is taken to be one structure");
                }
                Role::InputStructure(name.clone())
            }
            (Type::Record(name), false) => {
                if hint.role.is_none() {
                    self.guess(at, "is taken to be one structure, which no later call needs");
                }
                Role::InOut(Element::Record(name.clone()))
            }
            (Type::Number(number), false) if !number.is_byte() || hint.role.is_some() => {
                if hint.role.is_none() {
                    self.guess(at, "is taken to be one number");
                }
                Role::InOut(Element::Number(*number))
            }
            _ => {
                self.guess(at, "has no length that is known, and is an address");
                Role::Address
            }
        }
    }

    /// `is_const` for an array of pointers that the library does not change.
    fn pointer_to_pointer(
        &mut self,
        at: usize,
        (inner, is_const): (&Type, [bool; 2]),
        hint: &ParameterHint,
    ) -> Role {
        match (inner, &hint.freed_by) {
            (Type::Number(Number::Char), Some(free)) => Role::OutText(free.clone()),
            (Type::Record(name), _) if is_const == [false, false] => {
                if self.may_have_length(at) && hint.role.is_none() {
                    self.guess(at, "is taken to be one object, which the library may store");
                }
                Role::OutHandle(name.clone())
            }
            _ if is_const[0] || hint.role == Some(RoleHint::Input) => {
                self.guess(at, "is an array of pointers, and is an address");
                Role::Address
            }
            _ => {
                self.guess(at, "is taken to be one address, which the library may store");
                Role::InOutAddress
            }
        }
    }

    fn callback(
        &mut self,
        at: usize,
        prototype: &Prototype,
        hint: &ParameterHint,
    ) -> Result<Role, Error> {
        let data = match &hint.data {
            Some(name) => Some(self.find(name)?),
            None => Some(at + 1).filter(|next| self.is_data(*next)),
        };
        let callback = match data {
            Some(_) => self.callback_roles(at, prototype, hint)?,
            None => None,
        };
        match (callback, data) {
            (Some(callback), Some(data)) => {
                if hint.data.is_none() {
                    let what = format!(
                        "is taken to get {} with each call, and no call later",
                        self.names[data]
                    );
                    self.guess(at, &what);
                }
                self.roles[data] = Some(Role::CallbackData(at));
                Ok(Role::Callback(callback, data))
            }
            _ => {
                self.guess(
                    at,
                    "gets no data by which the host would know a closure, and is an address",
                );
                Ok(Role::Address)
            }
        }
    }

    /// True for a `void *` without a role.
    fn is_data(&self, at: usize) -> bool {
        matches!(self.kind(at), Some(Type::Pointer(target, _)) if **target == Type::Void)
            && self.roles[at].is_none()
    }

    /// The roles of a callback's parameters; none where it gets no data, or what does not cross.
    fn callback_roles(
        &self,
        at: usize,
        prototype: &Prototype,
        hint: &ParameterHint,
    ) -> Result<Option<Callback>, Error> {
        let parameters = &prototype.parameters;
        for (array, count) in &hint.texts {
            let is_array = |one: &Parameter| matches!(&one.kind, Type::Pointer(target, _) if matches!(**target, Type::Pointer(..)));
            let is_known = array
                .parse()
                .ok()
                .and_then(|array: usize| parameters.get(array))
                .is_some_and(is_array);
            if !is_known || !counts(prototype, *count) {
                let name = &self.function.name;
                return Err(Error::new(format!(
                    "hints: {name}: argument {array} of {} is no array that argument {count} counts",
                    self.names[at]
                )));
            }
        }
        let is_data = |one: &Parameter| matches!(&one.kind, Type::Pointer(target, false) if **target == Type::Void);
        let mut found =
            parameters.iter().enumerate().filter(|(_, one)| is_data(one)).map(|(at, _)| at);
        let data = match (hint.data_argument, found.next(), found.next()) {
            (Some(data), ..)
                if parameters
                    .get(data)
                    .is_some_and(|one| matches!(one.kind, Type::Pointer(..))) =>
            {
                data
            }
            (Some(data), ..) => {
                let name = &self.function.name;
                return Err(Error::new(format!(
                    "hints: {name}: {} has no pointer as argument {data}",
                    self.names[at]
                )));
            }
            (None, Some(data), None) => data,
            _ => return Ok(None),
        };
        if prototype.is_variadic || parameters.len() > PARAMETERS_MAX {
            return Ok(None);
        }
        let result = match prototype.result {
            Type::Void => None,
            Type::Number(number) => Some(number),
            _ => return Ok(None),
        };
        let mut roles = Vec::new();
        for (at, one) in parameters.iter().enumerate() {
            let has_length = matches!(parameters.get(at + 1), Some(Parameter { kind: Type::Number(number), .. }) if number.is_integer());
            roles.push(match &one.kind {
                _ if at == data => CallbackRole::Data,
                Type::Number(number) => CallbackRole::Number(*number),
                Type::Pointer(target, is_const) => {
                    match (&**target, hint.texts.get(&at.to_string())) {
                        // With a length there may be no zero byte.
                        (Type::Number(Number::Char), _) if *is_const && !has_length => {
                            CallbackRole::Text
                        }
                        (Type::Record(name), _) if !self.guessing.is_copied(name) => {
                            CallbackRole::Handle(name.clone())
                        }
                        (_, Some(count)) => CallbackRole::Texts(*count),
                        _ => CallbackRole::Address,
                    }
                }
                _ => return Ok(None),
            });
        }
        Ok(Some(Callback { parameters: roles, data, result }))
    }

    fn result(&mut self) -> Outcome {
        let hint = &self.hints.result;
        match &self.function.prototype.result {
            Type::Number(number) => {
                let is_untrusted = hint.is_untrusted.unwrap_or(number.may_be_length());
                Outcome::Number(*number, is_untrusted)
            }
            Type::Pointer(target, is_const) if !hint.is_address => {
                match &**target {
                    Type::Number(Number::Char) => {
                        if !is_const && hint.freed_by.is_none() {
                            let Function { place, name, .. } = self.function;
                            self.guesses.push(format!("{place}: {name}: the result is taken to be text that the library keeps"));
                        }
                        Outcome::Text(hint.freed_by.clone())
                    }
                    Type::Record(name) => Outcome::Handle(name.clone()),
                    _ => Outcome::Address,
                }
            }
            Type::Pointer(..) => Outcome::Address,
            _ => Outcome::Void,
        }
    }
}

/// True for an integer parameter.
fn counts(prototype: &Prototype, at: usize) -> bool {
    matches!(prototype.parameters.get(at), Some(Parameter { kind: Type::Number(number), .. }) if number.is_integer())
}

/// True for the name of a length of something with that name.
fn is_length(name: &str, of: &str) -> bool {
    let plain = |name: &str| name.replace('_', "").to_ascii_lowercase();
    let (name, of) = (plain(name), plain(of));
    let rest = match of.is_empty() {
        true => name.as_str(),
        false => name.strip_prefix(&of).unwrap_or(&name),
    };
    LENGTHS.contains(&rest)
}

#[cfg(test)]
mod tests {
    use super::is_length;

    #[test]
    fn a_length_has_a_common_name_or_the_name_of_what_it_counts() {
        for (length, of) in [
            ("destLen", "dest"),
            ("n", "values"),
            ("nByte", "zSql"),
            ("data_size", "data"),
            ("nitems", ""),
        ] {
            assert!(is_length(length, of), "{length} of {of}");
        }
        for (length, of) in
            [("stream_size", "version"), ("flags", "name"), ("window", "w"), ("sourceLen", "dest")]
        {
            assert!(!is_length(length, of), "{length} of {of}");
        }
    }
}
