//! The words of C declarations.

use crate::error::{Error, Result};

/// One word of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Token<'t> {
    /// A keyword or a name.
    Word(&'t str),
    Number(usize),
    /// A single character.
    Mark(char),
    /// `...`
    Ellipsis,
    End,
}

/// The words of a text, and where the reader is.
#[derive(Debug, Clone)]
pub(super) struct Tokens<'t> {
    text: &'t str,
    tokens: Vec<(Token<'t>, usize)>,
    next: usize,
}

impl<'t> Tokens<'t> {
    /// Cuts a text into words; comments are left out.
    pub(super) fn new(text: &'t str) -> Result<Tokens<'t>> {
        let mut tokens = Tokens { text, tokens: Vec::new(), next: 0 };
        let mut at = 0;
        while let Some(first) = text[at..].chars().next() {
            let rest = &text[at..];
            let word = word_bytes(rest);
            let (token, bytes) = match first {
                '/' if rest.starts_with("//") => (None, rest.find('\n').unwrap_or(rest.len())),
                '/' if rest.starts_with("/*") => match rest[2..].find("*/") {
                    Some(end) => (None, end + 4),
                    None => return Err(tokens.error(at, "a comment without an end")),
                },
                '.' if rest.starts_with("...") => (Some(Token::Ellipsis), 3),
                one if one.is_whitespace() => (None, one.len_utf8()),
                '0'..='9' => match number(&rest[..word]) {
                    Some(number) => (Some(Token::Number(number)), word),
                    None => {
                        let what = format!("`{}` is no number", &rest[..word]);
                        return Err(tokens.error(at, &what));
                    }
                },
                _ if word > 0 => (Some(Token::Word(&rest[..word])), word),
                one => (Some(Token::Mark(one)), one.len_utf8()),
            };
            tokens.tokens.extend(token.map(|token| (token, at)));
            at += bytes;
        }
        Ok(tokens)
    }

    /// The next word, which stays the next.
    pub(super) fn peek(&self) -> Token<'t> {
        self.peek_behind(0)
    }

    /// The word that comes `words` words behind the next one.
    pub(super) fn peek_behind(&self, words: usize) -> Token<'t> {
        self.tokens.get(self.next + words).map_or(Token::End, |(token, _)| *token)
    }

    /// Goes behind the next word.
    pub(super) fn skip(&mut self) {
        self.next = (self.next + 1).min(self.tokens.len());
    }

    /// Goes behind the next word if it is this one.
    pub(super) fn take(&mut self, token: Token<'_>) -> bool {
        let is_next = self.peek() == token;
        if is_next {
            self.skip();
        }
        is_next
    }

    /// Goes behind this mark, which must be next.
    pub(super) fn expect(&mut self, mark: char) -> Result<()> {
        if self.take(Token::Mark(mark)) {
            Ok(())
        } else {
            Err(self.unexpected(&format!("`{mark}`")))
        }
    }

    /// Goes behind the `)` that closes the `(` before the next word.
    pub(super) fn skip_to_close(&mut self) -> Result<()> {
        let mut open = 1;
        while open > 0 {
            match self.peek() {
                Token::Mark('(') => open += 1,
                Token::Mark(')') => open -= 1,
                Token::End => return Err(self.unexpected("`)`")),
                _ => {}
            }
            self.skip();
        }
        Ok(())
    }

    /// Where the reader is, for [`Tokens::go_to`].
    pub(super) fn position(&self) -> usize {
        self.next
    }

    /// Goes to an earlier position.
    pub(super) fn go_to(&mut self, position: usize) {
        self.next = position;
    }

    /// The error that something else than the next word was due.
    pub(super) fn unexpected(&self, due: &str) -> Error {
        let found = match self.peek() {
            Token::Word(word) => format!("`{word}`"),
            Token::Number(number) => number.to_string(),
            Token::Mark(mark) => format!("`{mark}`"),
            Token::Ellipsis => "`...`".to_owned(),
            Token::End => "the end".to_owned(),
        };
        self.refuse(&format!("expected {due}, found {found}"))
    }

    /// An error at the next word.
    pub(super) fn refuse(&self, why: &str) -> Error {
        self.refuse_at(self.next, why)
    }

    /// An error at the word of a position.
    pub(super) fn refuse_at(&self, position: usize, why: &str) -> Error {
        let at = self.tokens.get(position).map_or(self.text.len(), |(_, at)| *at);
        self.error(at, why)
    }

    fn error(&self, at: usize, why: &str) -> Error {
        let before = &self.text[..at];
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        let start = before.rfind('\n').map_or(0, |end| end + 1);
        let column = before[start..].chars().count() + 1;
        let text = self.text[start..].lines().next().unwrap_or_default();
        let line = if line == 1 { String::new() } else { format!("line {line}, ") };
        Error::invalid(format!("{line}column {column} of `{text}`: {why}"))
    }
}

/// The bytes of the word or number that a text begins with. Names of compilers have `$` and `.` in them: `cfunc._ZN1fE`, `f.cold$2`.
fn word_bytes(text: &str) -> usize {
    let is_word = |one: u8| one.is_ascii_alphanumeric() || matches!(one, b'_' | b'$');
    let bytes = text.as_bytes();
    let is_part = |at: &usize| match bytes[*at] {
        b'.' => *at > 0 && bytes.get(at + 1).copied().is_some_and(is_word),
        one => is_word(one),
    };
    (0..bytes.len()).find(|at| !is_part(at)).unwrap_or(bytes.len())
}

/// A number as C writes it, without a suffix.
fn number(text: &str) -> Option<usize> {
    let text = text.trim_end_matches(['u', 'U', 'l', 'L']);
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => usize::from_str_radix(digits, 16).ok(),
        None if text.len() > 1 && text.starts_with('0') => usize::from_str_radix(text, 8).ok(),
        None => text.parse().ok(),
    }
}
