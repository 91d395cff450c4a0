//! The language: `name(parameter, ...) = expression`, or an expression alone, of numbers, parameters, calls, and `+ - * /`.

/// A function, or an expression without a name.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Definition {
    pub(crate) name: Option<String>,
    pub(crate) parameters: Vec<String>,
    pub(crate) body: Expression,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Expression {
    Number(f64),
    Parameter(String),
    Call(String, Vec<Expression>),
    Negative(Box<Expression>),
    /// The operator is one of `+ - * /`.
    Binary(char, Box<Expression>, Box<Expression>),
}

/// Reads a line.
///
/// # Errors
///
/// The message says what was expected, and where.
pub(crate) fn parse(line: &str) -> Result<Definition, String> {
    let (head, body) = match line.split_once('=') {
        Some((head, body)) => (Some(head), body),
        None => (None, line),
    };
    let mut parser = Parser { text: body, rest: body };
    let body = parser.sum()?;
    parser.end()?;
    let Some(head) = head else {
        return Ok(Definition { name: None, parameters: Vec::new(), body });
    };
    let mut parser = Parser { text: head, rest: head };
    let Expression::Call(name, parameters) = parser.sum()? else {
        return Err(format!("{head}: a name and its parameters are expected"));
    };
    parser.end()?;
    let name_of = |parameter| match parameter {
        Expression::Parameter(name) => Ok(name),
        other => Err(format!("{head}: {other:?} where a parameter is expected")),
    };
    let parameters = parameters.into_iter().map(name_of).collect::<Result<_, _>>()?;
    Ok(Definition { name: Some(name), parameters, body })
}

struct Parser<'a> {
    text: &'a str,
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn sum(&mut self) -> Result<Expression, String> {
        self.operations(&['+', '-'], Self::product)
    }

    fn product(&mut self) -> Result<Expression, String> {
        self.operations(&['*', '/'], Self::factor)
    }

    fn operations(
        &mut self,
        operators: &[char],
        operand: fn(&mut Self) -> Result<Expression, String>,
    ) -> Result<Expression, String> {
        let mut left = operand(self)?;
        while let Some(operator) = operators.iter().copied().find(|one| self.takes(*one)) {
            left = Expression::Binary(operator, Box::new(left), Box::new(operand(self)?));
        }
        Ok(left)
    }

    fn factor(&mut self) -> Result<Expression, String> {
        if self.takes('-') {
            return Ok(Expression::Negative(Box::new(self.factor()?)));
        }
        if self.takes('(') {
            let inner = self.sum()?;
            return if self.takes(')') { Ok(inner) } else { self.expected(")") };
        }
        let word = self.word();
        if word.starts_with(|first: char| first.is_ascii_digit()) {
            return word.parse().map(Expression::Number).map_err(|_| format!("{word}: no number"));
        }
        if word.is_empty() {
            return self.expected("a number, a name or (");
        }
        if !self.takes('(') {
            return Ok(Expression::Parameter(word.to_owned()));
        }
        let mut arguments = Vec::new();
        while !self.takes(')') {
            if !arguments.is_empty() && !self.takes(',') {
                return self.expected(", or )");
            }
            arguments.push(self.sum()?);
        }
        Ok(Expression::Call(word.to_owned(), arguments))
    }

    fn word(&mut self) -> &'a str {
        self.rest = self.rest.trim_start();
        let is_end = |c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '.';
        let (word, rest) = self.rest.split_at(self.rest.find(is_end).unwrap_or(self.rest.len()));
        self.rest = rest;
        word
    }

    fn takes(&mut self, wanted: char) -> bool {
        let rest = self.rest.trim_start().strip_prefix(wanted);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn end(&self) -> Result<(), String> {
        if self.rest.trim().is_empty() { Ok(()) } else { self.expected("an operator") }
    }

    fn expected<T>(&self, what: &str) -> Result<T, String> {
        Err(format!("{}: {what} is expected before {:?}", self.text.trim(), self.rest.trim()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_bind_as_in_arithmetic() {
        let body = |line: &str| format!("{:?}", parse(line).unwrap().body);
        assert_eq!(body("1 + 2 * 3"), body("1 + (2 * 3)"));
        assert_eq!(body("1 - 2 - 3"), body("(1 - 2) - 3"));
        assert_eq!(body("-x / y"), body("(-x) / y"));
        assert_ne!(body("(1 + 2) * 3"), body("1 + 2 * 3"));
        let definition = parse("f(x, y) = g(x) + y").unwrap();
        assert_eq!(definition.name.as_deref(), Some("f"));
        assert_eq!(definition.parameters, ["x", "y"]);
    }

    #[test]
    fn mistakes_are_named() {
        for (line, what) in [
            ("1 +", "a number, a name or ("),
            ("(1", ")"),
            ("1 2", "an operator"),
            ("f(1) = 2", "a parameter"),
            ("x = 2", "a name and its parameters"),
            ("f(1 2)", ", or )"),
            ("1.2.3", "no number"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(what), "{line}: {error}");
        }
    }
}
