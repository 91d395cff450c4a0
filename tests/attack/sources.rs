//! The C sources of the attacks, compiled. The process that starts the others compiles for all of them: they may be unable to.

use std::path::{Path, PathBuf};

use crate::corpus::{self, Build, PLAIN, gcc};

/// The product of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Object,
    Library,
    Program,
}

const SOURCES: [(&str, Form); 14] = [
    ("confined", Form::Object),
    ("processes", Form::Object),
    ("shared", Form::Object),
    ("sockets", Form::Object),
    ("ends", Form::Object),
    ("fights", Form::Object),
    ("traced", Form::Object),
    ("limits", Form::Object),
    ("resolver", Form::Object),
    ("random", Form::Library),
    ("random_object", Form::Object),
    ("constructor", Form::Library),
    ("refuse", Form::Library),
    ("silent", Form::Program),
];

const LIBRARY: Build<'static> = gcc(&["-O2", "-fPIC"]);

/// Every source's variable, and the path of what was made of it.
pub(crate) fn all() -> Vec<(String, PathBuf)> {
    SOURCES.iter().map(|(name, form)| (variable(name), made(name, *form))).collect()
}

/// The file that was made of a source.
pub(crate) fn path(name: &str) -> PathBuf {
    let path = std::env::var_os(variable(name));
    path.unwrap_or_else(|| panic!("{name}: not in the process of a test")).into()
}

fn variable(name: &str) -> String {
    format!("ATTACK_SOURCE_{name}")
}

fn made(name: &str, form: Form) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/attack/sources");
    let folder = folder.canonicalize().expect("the folder of the sources");
    let build = if form == Form::Library { LIBRARY } else { PLAIN };
    // One source is made into both.
    let source = folder.join(name.trim_end_matches("_object")).with_extension("c");
    let source = if source.exists() { source } else { source.with_extension("cpp") };
    let object = corpus::compile(&source, build);
    match form {
        Form::Object => object,
        Form::Library => corpus::shared_library(&[object]),
        Form::Program => corpus::executable(&[object], &[], PLAIN),
    }
}
