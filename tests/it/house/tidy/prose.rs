//! Plain English, read as text: words that the project does not use any more, turns of phrase that hide the actor, and sentences
//! that are too long to be understood at the first reading.
//!
//! Invariant: each list is shown a planted text that holds all of it.

use std::fs;
use std::path::Path;

use super::code_of;

/// Words that have given way to the field's own, in any text: the old word, and what is said in its place.
const OLD_WORDS: &[(&str, &str)] = &[
    ("shelf", "hazard-pointer table"),
    ("shelves", "hazard-pointer tables"),
    ("books", "page table"),
    ("ledger", "page allocator"),
    ("arena", "static TLS reserve"),
    ("low_data", "copy relocations"),
    ("bed", "parker"),
    ("bell", "doorbell"),
    ("seat", "follower"),
    ("pace", "poll delay"),
    ("lie_down", "park"),
    ("rouse", "unpark"),
    ("hush", "drain"),
    ("patience", "timeout"),
    ("manners", "behaviour"),
    ("tally", "counters"),
    ("go_on", "resume"),
    ("landing", "unwind boundary"),
    ("serve_if_asked", "run_if_spawned"),
    ("stand-by", "follower"),
];

/// The same for names in code, where the word has a meaning of its own in prose.
const OLD_NAMES: &[(&str, &str)] = &[
    ("Launch", "ExecutorBuilder"),
    ("Finalized", "FinalizedAlloc"),
    ("Submitted", "PendingCall"),
    ("Killer", "WeakProcess"),
    ("Traffic", "Stats"),
    ("SessionRef", "SessionHandle"),
    ("CallsUnderWay", "GracePeriod"),
    ("Aside", "Suspended"),
    ("Wants", "Requirements"),
    ("Room", "LinkMemory"),
];

/// Turns of phrase without an actor or a number.
const TICS: &[&str] = &[
    "who",
    "whoever",
    "whom",
    "somebody",
    "someone",
    "nobody",
    "everybody",
    "anybody",
    "so many",
    "so long",
    "to be had",
    "one that",
    "as it is",
    "what is there",
    "gives up",
    "give up",
    "given up",
    "lets go",
    "goes away",
    "went away",
    "gone away",
];

/// Turns of phrase that make a reader go back for the noun: the noun is said again.
const PHRASES: &[&str] = &[
    "those of",
    "that of",
    "as long as",
    "at which",
    "for good",
    "of use",
    "come behind",
    "comes behind",
    "has it",
    "have it",
];

/// Verbs that say nothing as the name of a function.
const VAGUE_NAMES: &[&str] = &["take", "look", "settle", "tell", "meet", "know", "behind"];

/// Files and folders where openings, [`PHRASES`], tables and the names of tests are not in order yet. The list can only become
/// shorter: the test fails as well when something listed is in order.
const NOT_YET: &[&str] = &["src/call", "src/controller", "src/ffi", "src/transport"];

/// The same for functions with [`VAGUE_NAMES`].
const VAGUE_YET: &[&str] = &[
    "src/base",
    "src/call",
    "src/controller",
    "src/ffi",
    "src/session",
    "src/sleep",
    "src/transport",
    "tests/fuzz/hostile",
];

/// A longer sentence is two.
const SENTENCE_WORDS_MAX: usize = 25;

/// Folders whose pages are read; the source tree's Rust files are read all.
const PAGES: &[&str] = &[
    "",
    "src/docs",
    "src/docs/guide",
    "bench",
    "tools",
    "tests",
    "cranelift",
    "python",
    "fuzzer",
    "src/base",
    "src/ffi",
    "src/link",
    "src/orc",
];
/// Where the words themselves are listed.
const WORD_LISTS: &str = "tests/it/house/tidy/prose.rs";

/// Complaints about the words and sentences of one file.
fn complaints(path: &str, text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    let lower = text.to_lowercase();
    // The changelog says what old names have become.
    for (old, new) in OLD_WORDS.iter().filter(|_| path != "CHANGELOG.md") {
        for line in lines_with(&lower, old) {
            complaints.push(format!("{path}:{line}: {old} is called {new}"));
        }
    }
    if path.ends_with(".rs") {
        let code = code_of(text);
        for (old, new) in OLD_NAMES {
            for line in lines_with(&code, old) {
                complaints.push(format!("{path}:{line}: {old} is called {new}"));
            }
        }
    }
    let is_strict = is_outside(path, NOT_YET);
    for (is_vague, name) in names(path, text) {
        if if is_vague { is_outside(path, VAGUE_YET) } else { is_strict } {
            complaints.push(name);
        }
    }
    for paragraph in paragraphs(path, text) {
        let lower = paragraph.text.to_lowercase();
        if paragraph.is_cell && !is_strict {
            continue;
        }
        if is_strict {
            complaints.extend(phrases(path, &paragraph));
        }
        for tic in TICS.iter().filter(|tic| !lines_with(&lower, tic).is_empty()) {
            complaints.push(format!("{path}:{}: \"{tic}\"", paragraph.line));
        }
        for sentence in sentences(&paragraph.text) {
            let words = words_of(sentence);
            if words > SENTENCE_WORDS_MAX {
                let line = paragraph.line;
                complaints.push(format!("{path}:{line}: {words} words: {sentence}"));
            }
        }
    }
    complaints
}

/// Complaints about phrases of a paragraph that hide the noun.
fn phrases(path: &str, paragraph: &Paragraph) -> Vec<String> {
    let mut complaints = Vec::new();
    let line = paragraph.line;
    let lower = paragraph.text.to_lowercase();
    for phrase in PHRASES.iter().filter(|phrase| !lines_with(&lower, phrase).is_empty()) {
        complaints.push(format!("{path}:{line}: \"{phrase}\": say the noun"));
    }
    for sentence in sentences(&paragraph.text) {
        let opening = sentence.trim_start_matches(|c: char| !c.is_alphanumeric());
        if opening.starts_with("What ") && !sentence.ends_with('?') && !paragraph.is_cell {
            complaints.push(format!("{path}:{line}: name the thing: {sentence}"));
        }
        let lower = sentence.to_lowercase();
        if lower.split_once("the one ").is_some_and(|(_, rest)| rest.contains("the other")) {
            complaints.push(format!("{path}:{line}: the one, the other: {sentence}"));
        }
    }
    complaints
}

/// True if the file is in none of these places.
fn is_outside(path: &str, places: &[&str]) -> bool {
    !places.iter().any(|place| path.starts_with(place))
}

/// Complaints about the names of functions (true), and of tests, whose names are sentences (false).
fn names(path: &str, text: &str) -> Vec<(bool, String)> {
    let mut complaints = Vec::new();
    let mut is_test = false;
    // Programs that tests link may have any names.
    let is_program = path.starts_with("tests/sources/");
    if !path.ends_with(".rs") || is_program {
        return complaints;
    }
    for (line, content) in (1..).zip(text.lines().map(str::trim)) {
        is_test |= content.starts_with("#[test]");
        let Some((before, rest)) = content.split_once("fn ") else { continue };
        if !before.chars().all(|c| c.is_ascii_lowercase() || " ()\"C".contains(c)) {
            continue;
        }
        let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next();
        let name = name.unwrap_or_default();
        if VAGUE_NAMES.contains(&name) {
            let complaint = format!("{path}:{line}: {name} says too little for a name");
            complaints.push((true, complaint));
        }
        let words = name.replace('_', " ");
        let tics = TICS.iter().chain(PHRASES).filter(|_| is_test);
        for tic in tics.filter(|tic| !lines_with(&words, tic).is_empty()) {
            let complaint = format!("{path}:{line}: \"{tic}\" in the name of a test: {name}");
            complaints.push((false, complaint));
        }
        if is_test && words.starts_with("what ") {
            complaints.push((false, format!("{path}:{line}: name the thing: {name}")));
        }
        is_test = false;
    }
    complaints
}

/// Counts words; what stands between backquotes is one, and the target of a link is none.
fn words_of(sentence: &str) -> usize {
    let mut said = String::new();
    for (at, part) in sentence.split('`').enumerate() {
        said.push_str(if at % 2 == 0 { part } else { "code" });
    }
    while let Some((start, rest)) = said.split_once("](") {
        said = format!("{start}{}", rest.split_once(')').map_or("", |(_, behind)| behind));
    }
    said.split(' ').filter(|word| word.contains(char::is_alphanumeric)).count()
}

/// The lines, from 1, that hold `word` with no letter, digit or underscore around it.
fn lines_with(text: &str, word: &str) -> Vec<usize> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let alone = |line: &str| {
        line.match_indices(word).any(|(at, _)| {
            !line[..at].ends_with(is_part) && !line[at + word.len()..].starts_with(is_part)
        })
    };
    (1..).zip(text.lines()).filter(|(_, line)| alone(line)).map(|(line, _)| line).collect()
}

struct Paragraph {
    /// Its first line, from 1.
    line: usize,
    text: String,
    /// True for a cell of a table.
    is_cell: bool,
}

/// The paragraphs, list items and cells of tables of a page, or of the comments of a source file; without blocks of code and
/// headings.
fn paragraphs(path: &str, text: &str) -> Vec<Paragraph> {
    let is_page = path.ends_with(".md");
    let is_link = |said: &str| said.starts_with('[') && said.contains("]: ");
    let (mut found, mut fenced) = (Vec::new(), false);
    let mut open: Option<Paragraph> = None;
    for (line, content) in (1..).zip(text.lines()) {
        let is_code = is_page && open.is_none() && content.starts_with("    ");
        let content = if is_code { "" } else { content.trim_start() };
        let said = match content.strip_prefix("//") {
            _ if is_page => Some(content),
            Some(rest) => Some(rest.trim_start_matches(['/', '!']).trim()),
            None => None,
        };
        let Some(said) = said else {
            // A block may have lines of another file.
            fenced &= content.starts_with("#[doc") || content.starts_with("#![doc");
            found.extend(open.take());
            continue;
        };
        let is_item = said.starts_with("- ");
        if said.starts_with("```") {
            fenced = !fenced;
        }
        if fenced || said.is_empty() || said.starts_with(['|', '#']) || is_link(said) {
            found.extend(open.take());
            let cells = said.strip_prefix('|').filter(|_| !fenced && !said.starts_with("|-"));
            let cells = cells.into_iter().flat_map(|cells| cells.split(" | ")).map(str::trim);
            found.extend(cells.filter(|cell| !cell.is_empty()).map(|cell| {
                let text = cell.trim_end_matches('|').trim().to_owned();
                Paragraph { line, text, is_cell: true }
            }));
        } else if let Some(paragraph) = open.as_mut().filter(|_| !is_item) {
            paragraph.text.push(' ');
            paragraph.text.push_str(said);
        } else {
            found.extend(open.take());
            open = Some(Paragraph { line, text: said.to_owned(), is_cell: false });
        }
    }
    found.extend(open);
    found
}

/// The sentences of a paragraph: each ends with a mark and a space, and the next one does not begin with a small letter.
fn sentences(text: &str) -> Vec<&str> {
    let ends = text.match_indices(". ").chain(text.match_indices("? ")).map(|(at, _)| at + 1);
    let mut ends: Vec<usize> =
        ends.filter(|at| !text[at + 1..].starts_with(char::is_lowercase)).collect();
    ends.sort_unstable();
    ends.push(text.len());
    let mut start = 0;
    ends.into_iter()
        .map(|end| {
            let sentence = text[start..end].trim();
            start = end;
            sentence
        })
        .collect()
}

/// The tracked files of which plain English is demanded, with their texts.
fn texts() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut texts = super::sources();
    let pages = PAGES.iter().flat_map(|folder| {
        let entries = fs::read_dir(root.join(folder)).expect("a folder of pages");
        entries.map(move |entry| {
            let name = entry.expect("an entry").file_name().into_string().expect("a UTF-8 name");
            if folder.is_empty() { name } else { format!("{folder}/{name}") }
        })
    });
    for page in pages.filter(|name| name.ends_with(".md")) {
        let text = fs::read_to_string(root.join(&page)).expect("a page");
        texts.push((page, text));
    }
    texts.retain(|(path, _)| !path.starts_with(WORD_LISTS));
    texts
}

#[test]
fn the_house_speaks_plain_english() {
    let texts = texts();
    let complaints: Vec<String> =
        texts.iter().flat_map(|(path, text)| complaints(path, text)).collect();
    assert!(complaints.is_empty(), "{} in\n{}", complaints.len(), complaints.join("\n"));
    let is_wrong = |(path, text): &&(String, String)| {
        let found = paragraphs(path, text);
        names(path, text).iter().any(|(is_vague, _)| !is_vague)
            || found.iter().any(|paragraph| !phrases(path, paragraph).is_empty())
            || found.iter().filter(|one| one.is_cell).any(|cell| {
                sentences(&cell.text).iter().any(|one| words_of(one) > SENTENCE_WORDS_MAX)
            })
    };
    let is_vague =
        |(path, text): &&(String, String)| names(path, text).iter().any(|(is_vague, _)| *is_vague);
    for place in NOT_YET {
        let mut inside = texts.iter().filter(|(path, _)| path.starts_with(place));
        assert!(inside.any(|text| is_wrong(&text)), "{place} is in order: off the list");
    }
    for place in VAGUE_YET {
        let mut inside = texts.iter().filter(|(path, _)| path.starts_with(place));
        assert!(inside.any(|text| is_vague(&text)), "{place} has no vague names: off the list");
    }
    println!("plain English: {} cases", texts.len());
}

#[test]
fn planted_words_and_sentences_are_found() {
    let words = OLD_WORDS.iter().map(|(word, _)| *word);
    let words = words.chain(TICS.iter().copied()).chain(PHRASES.iter().copied());
    for word in words {
        let planted = format!("/// The caller {word}, and more.\n");
        assert_eq!(complaints("src/a.rs", &planted).len(), 1, "{word}");
        assert_eq!(complaints("README.md", &planted).len(), 1, "{word}");
    }
    for (name, _) in OLD_NAMES {
        assert_eq!(complaints("src/a.rs", &format!("use crate::{name};\n")).len(), 1, "{name}");
        assert_eq!(complaints("src/a.rs", &format!("// {name}: a word\n")).len(), 0, "{name}");
    }
    let long = "word ".repeat(SENTENCE_WORDS_MAX + 1);
    for (path, text, due) in [
        ("src/a.rs", format!("// {long}\n"), 1),
        ("src/a.rs", format!("let text = \"{long}\";\n"), 0),
        (
            "src/a.rs",
            format!("//! First words.\n//! {}\n", long.replacen("word word", "A b. C", 1)),
            0,
        ),
        ("src/a.rs", format!("/// ```text\n/// {long}\n/// ```\n"), 0),
        ("src/a.rs", format!("/// ```\n#[doc = include_str!(\"b\")]\n/// {long}\n/// ```\n"), 0),
        ("README.md", format!("| {long} | b |\n|---|---|\n"), 1),
        ("README.md", "| word of one who | a |\n".to_owned(), 1),
        ("src/a.rs", "/// What it holds.\n".to_owned(), 1),
        ("src/a.rs", "/// It is. What it holds is there.\n".to_owned(), 1),
        ("src/a.rs", "/// - What it holds.\n".to_owned(), 1),
        ("src/a.rs", "/// What does it hold?\n".to_owned(), 0),
        ("src/a.rs", "// It goes from the one side to the other.\n".to_owned(), 1),
        ("src/a.rs", "#[test]\nfn what_is_held_is_seen() {}\n".to_owned(), 1),
        ("src/a.rs", "#[test]\nfn the_length_is_that_of_the_file() {}\n".to_owned(), 1),
        ("src/a.rs", "fn what_is_held() {}\n".to_owned(), 0),
        ("src/a.rs", "    pub(crate) fn take(&self) {}\n".to_owned(), 1),
        ("src/a.rs", "let f: extern \"C\" fn look();\n".to_owned(), 0),
        ("README.md", format!("`{long}` [a]({long}) b\n"), 0),
        ("README.md", long.replace(' ', "\n"), 1),
        ("README.md", long.replace(' ', "\n- "), 0),
        ("README.md", format!("Shown:\n\n    {long}\n"), 0),
    ] {
        assert_eq!(complaints(path, &text).len(), due, "{path}: {text}");
    }
}
