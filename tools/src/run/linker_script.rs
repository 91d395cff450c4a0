//! Linker scripts that name files, as distributions install them for libraries: `GROUP ( libm.so.6 AS_NEEDED ( libmvec.so.1 ) )`.
//!
//! Invariant: takes time proportional to the text, for any text.

/// A file that a script names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// A path, or `-lNAME`.
    pub(crate) name: String,
    /// True if a shared library is opened only if the program needs it.
    pub(crate) as_needed: bool,
}

/// Commands that say what kind of output GNU ld makes.
const FORMATS: [&str; 3] = ["OUTPUT_FORMAT", "OUTPUT_ARCH", "TARGET"];

/// The other commands with which scripts begin, apart from those that name files.
const OTHERS: [&str; 13] = [
    "ASSERT",
    "ENTRY",
    "EXTERN",
    "INCLUDE",
    "MEMORY",
    "OUTPUT",
    "PHDRS",
    "PROVIDE",
    "SEARCH_DIR",
    "SECTIONS",
    "STARTUP",
    "VERSION",
    "INSERT",
];

/// The files that the script names, in their order; `None` if the text is no script.
///
/// # Errors
///
/// The script has a command that does not only name files, or a parenthesis too few or too many. Says which.
pub(crate) fn parse(text: &str) -> Option<Result<Vec<Entry>, String>> {
    let mut words = Words { rest: text };
    let first = words.clone().next()?;
    let is_command = names_files(first) || FORMATS.contains(&first) || OTHERS.contains(&first);
    is_command.then(|| entries(&mut words))
}

fn names_files(word: &str) -> bool {
    matches!(word, "INPUT" | "GROUP")
}

fn entries(words: &mut Words<'_>) -> Result<Vec<Entry>, String> {
    let mut entries = Vec::new();
    while let Some(command) = words.next() {
        if command == ";" {
            continue;
        }
        if !names_files(command) && !FORMATS.contains(&command) {
            return Err(format!(
                "{command} in a linker script; only INPUT, GROUP and AS_NEEDED are followed: give the files it names"
            ));
        }
        if words.next() != Some("(") {
            return Err(format!("{command} without ( in a linker script"));
        }
        let mut as_needed = false;
        loop {
            match words.next() {
                None => return Err(format!("{command} without ) in a linker script")),
                Some(")") if !as_needed => break,
                Some(")") => as_needed = false,
                Some(",") => {}
                Some("AS_NEEDED") if !as_needed && words.next() == Some("(") => as_needed = true,
                Some(word @ ("AS_NEEDED" | "(" | ";")) => {
                    return Err(format!("{word} inside of {command} in a linker script"));
                }
                Some(name) if names_files(command) => {
                    entries.push(Entry { name: unquoted(name).to_owned(), as_needed });
                }
                Some(_) => {}
            }
        }
    }
    Ok(entries)
}

fn unquoted(word: &str) -> &str {
    word.strip_prefix('"').map_or(word, |word| word.strip_suffix('"').unwrap_or(word))
}

/// The words of a script: names, names in quotes, and marks. Comments are left out.
#[derive(Clone)]
struct Words<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        const MARKS: [char; 4] = ['(', ')', ',', ';'];
        loop {
            self.rest = self.rest.trim_start();
            let Some(comment) = self.rest.strip_prefix("/*") else { break };
            self.rest = comment.split_once("*/").map_or("", |(_, rest)| rest);
        }
        let quoted = self.rest.strip_prefix('"').and_then(|name| name.find('"'));
        let bytes = match (quoted, self.rest.chars().next()?) {
            (Some(name), _) => name + 2,
            (None, mark) if MARKS.contains(&mark) => 1,
            _ => {
                let ends = |c: char| c.is_whitespace() || MARKS.contains(&c);
                self.rest.find(ends).unwrap_or(self.rest.len())
            }
        };
        let (word, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        Some(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names, with a star behind those that are opened as needed.
    fn names(text: &str) -> Option<Result<String, String>> {
        let name = |entry: Entry| entry.name + if entry.as_needed { "*" } else { "" };
        let all = |entries: Vec<Entry>| entries.into_iter().map(name).collect::<Vec<_>>().join(" ");
        parse(text).map(|entries| entries.map(all))
    }

    #[test]
    fn a_script_names_files_in_their_order() {
        for (text, wanted) in [
            (
                "GROUP ( /lib/libm.so.6  AS_NEEDED ( /lib/libmvec.so.1 ) )",
                "/lib/libm.so.6 /lib/libmvec.so.1*",
            ),
            (
                "/* a */ OUTPUT_FORMAT(elf64-x86-64)\nINPUT(a.so,b.so);INPUT ( -lg1 -lg2 )",
                "a.so b.so -lg1 -lg2",
            ),
            ("INPUT(\"a file.o\" /* not this */ b.a)", "a file.o b.a"),
            ("INPUT()", ""),
            ("OUTPUT_ARCH(i386:x86-64)", ""),
        ] {
            assert_eq!(names(text), Some(Ok(wanted.to_owned())), "{text}");
        }
    }

    #[test]
    fn text_that_is_no_script_is_told_from_a_script_that_does_more() {
        for text in ["", "int main(void) { return 0; }", "!<arch>\n", "/* only a comment */", "/*"]
        {
            assert_eq!(names(text), None, "{text}");
        }
        for text in [
            "SECTIONS { .text : { *(.text) } }",
            "INPUT(a.so) SECTIONS { }",
            "INPUT a.so",
            "INPUT(a.so",
            "INPUT(AS_NEEDED(a.so)",
            "GROUP(AS_NEEDED(AS_NEEDED(a.so)))",
            "INPUT((a.so))",
            "INPUT(AS_NEEDED a.so)",
        ] {
            assert!(names(text).is_some_and(|names| names.is_err()), "{text}");
        }
    }

    #[test]
    fn no_text_makes_the_reader_panic() {
        let parts =
            ["INPUT", "(", ")", "\"", "/*", "*/", ",", ";", " ", "AS_NEEDED", "ä", "\u{a0}", "-l"];
        let mut state = 1_u32;
        for _ in 0..20_000 {
            let mut text = String::new();
            for _ in 0..12 {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                text += parts[state as usize / 65_536 % parts.len()];
            }
            let _ = parse(&text);
        }
    }
}
