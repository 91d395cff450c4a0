//! A header, read by libclang.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use clang::diagnostic::Severity;
use clang::{
    Clang, Entity, EntityKind, EntityVisitResult, Index, Linkage, StorageClass, TranslationUnit,
    TypeKind, Unsaved,
};

use crate::constants;
use crate::header::{Constant, Function, Header, Parameter, Prototype, Value};
use crate::types::{Types, number};

/// The name of the file that includes the header. It is in no folder.
const SOURCE: &str = "farcall_bind.c";

/// Held while a header is read.
static READING: Mutex<()> = Mutex::new(());

/// A header to be read.
///
/// # Examples
///
/// ```no_run
/// use farcall_bind::HeaderFile;
///
/// let header = HeaderFile::new("/usr/include/zlib.h").read()?;
/// assert!(header.functions.iter().any(|function| function.name == "compress2"));
/// # Ok::<(), farcall_bind::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct HeaderFile {
    path: PathBuf,
    arguments: Vec<String>,
    symbols: Option<BTreeSet<String>>,
}

impl HeaderFile {
    /// The header at this path.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), arguments: Vec::new(), symbols: None }
    }

    /// Arguments for the compiler, such as `-I` and `-D`.
    #[must_use]
    pub fn arguments(mut self, arguments: impl IntoIterator<Item = String>) -> Self {
        self.arguments.extend(arguments);
        self
    }

    /// The names that the library defines. Functions of other headers that this one includes belong to it by that; a function that the
    /// library does not define is left out. Without this the header has the functions of its own file.
    #[must_use]
    pub fn symbols(mut self, symbols: BTreeSet<String>) -> Self {
        self.symbols = Some(symbols);
        self
    }

    /// Reads the header. Call it in a process that may die, since libclang may crash.
    ///
    /// # Errors
    ///
    /// When libclang cannot be loaded, the header cannot be read, or the compiler finds an error in it, of which the first is told.
    pub fn read(&self) -> Result<Header, crate::Error> {
        let path = self
            .path
            .canonicalize()
            .map_err(|error| crate::Error::new(format!("{}: {error}", self.path.display())))?;
        // libclang is used by one thread at a time.
        let _one = READING.lock().unwrap_or_else(PoisonError::into_inner);
        let clang = Clang::new().map_err(|error| {
            crate::Error::new(format!(
                "libclang cannot be loaded: {error}. Install it (Debian: libclang1), or name its folder in LIBCLANG_PATH"
            ))
        })?;
        let index = Index::new(&clang, false, false);
        let include = format!("#include \"{}\"\n", path.display());
        let unit = self.parse(&index, &include)?;
        if let Some(error) =
            unit.get_diagnostics().iter().find(|one| one.get_severity() >= Severity::Error)
        {
            let place = error.get_location().get_file_location();
            let file = place.file.map_or_else(|| path.clone(), |file| file.get_path());
            return Err(crate::Error::new(format!(
                "{}:{}: {}",
                file.display(),
                place.line,
                error.get_text()
            )));
        }
        let mut reading = Reading {
            path: &path,
            symbols: self.symbols.as_ref(),
            types: Types::default(),
            functions: Vec::new(),
            files: HashSet::from([path.clone()]),
        };
        reading.functions(&unit.get_entity());
        let macros = reading.macros(&unit.get_entity());
        let mut constants = reading.enumerators(&unit.get_entity());
        let names: HashSet<_> =
            reading.functions.iter().map(|function| function.name.clone()).collect();
        let unit = self.parse(&index, &constants::source(&include, &macros))?;
        constants.extend(
            constants::values(&unit, &macros).into_iter().filter(|one| !names.contains(&one.name)),
        );
        let Reading { functions, types, .. } = reading;
        Ok(Header { functions, records: types.into_records(), constants: unique(constants) })
    }

    fn parse<'i>(
        &self,
        index: &'i Index<'i>,
        source: &str,
    ) -> Result<TranslationUnit<'i>, crate::Error> {
        let mut arguments: Vec<String> =
            ["-xc", "-std=gnu17", "-w", "-ferror-limit=0"].map(str::to_owned).into();
        arguments.extend(self.arguments.iter().cloned());
        // A libclang without headers of its own takes the compiler's.
        if let Some(folder) = compiler_headers() {
            arguments.push(format!("-idirafter{folder}"));
        }
        let unsaved = [Unsaved::new(SOURCE, source)];
        let parsed = index
            .parser(SOURCE)
            .arguments(&arguments)
            .unsaved(&unsaved)
            .detailed_preprocessing_record(true)
            .parse();
        parsed.map_err(|error| {
            crate::Error::new(format!("{}: libclang: {error}", self.path.display()))
        })
    }
}

/// The folder of `stddef.h` and its like.
fn compiler_headers() -> Option<String> {
    let output = Command::new("cc").arg("-print-file-name=include").output().ok()?;
    let folder = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    Path::new(&folder).is_absolute().then_some(folder)
}

/// The constants, each name once.
fn unique(constants: Vec<Constant>) -> Vec<Constant> {
    let mut known = HashSet::new();
    constants.into_iter().filter(|constant| known.insert(constant.name.clone())).collect()
}

/// The declarations that were read.
struct Reading<'a> {
    path: &'a Path,
    symbols: Option<&'a BTreeSet<String>>,
    types: Types,
    functions: Vec<Function>,
    /// The files whose constants belong to the header.
    files: HashSet<PathBuf>,
}

impl Reading<'_> {
    fn functions(&mut self, unit: &Entity<'_>) {
        let mut known = HashMap::new();
        unit.visit_children(|entity, _| {
            if entity.get_kind() == EntityKind::FunctionDecl
                && let Some(name) = entity.get_name()
                && self.is_ours(&entity, &name)
                && known.insert(name.clone(), ()).is_none()
                && let Some(function) = self.function(name, &entity)
            {
                if let Some(file) = file_of(&entity) {
                    self.files.insert(file);
                }
                self.functions.push(function);
            }
            EntityVisitResult::Continue
        });
    }

    fn is_ours(&self, entity: &Entity<'_>, name: &str) -> bool {
        let is_external = entity.get_linkage() == Some(Linkage::External)
            && entity.get_storage_class() != Some(StorageClass::Static);
        is_external
            && match self.symbols {
                Some(symbols) => symbols.contains(name),
                None => {
                    file_of(entity).as_deref() == Some(self.path) && !entity.is_inline_function()
                }
            }
    }

    fn function(&mut self, name: String, entity: &Entity<'_>) -> Option<Function> {
        let kind = entity.get_type()?;
        let arguments = entity.get_arguments().unwrap_or_default();
        let names: Vec<_> =
            arguments.iter().map(|one| one.get_name().unwrap_or_default()).collect();
        // The function's type has pointers for arrays, whose sizes are in the declarations.
        let types = kind.get_canonical_type().get_argument_types().unwrap_or_default();
        let kinds: Vec<_> = types.iter().map(|one| self.types.of(one, 0)).collect();
        let arrays: Vec<_> = arguments
            .iter()
            .map(|one| {
                one.get_type()
                    .filter(|kind| kind.get_canonical_type().get_kind() == TypeKind::ConstantArray)
            })
            .collect();
        let kinds: Vec<_> = kinds
            .into_iter()
            .enumerate()
            .map(|(at, kind)| match arrays.get(at).cloned().flatten() {
                Some(array) => self.types.of(&array, 0),
                None => kind,
            })
            .collect();
        let parameters = kinds
            .into_iter()
            .enumerate()
            .map(|(at, kind)| Parameter { name: names.get(at).cloned().unwrap_or_default(), kind });
        let prototype = Prototype {
            parameters: parameters.collect(),
            result: self.types.of(&kind.get_result_type()?, 0),
            is_variadic: kind.is_variadic(),
        };
        let location = entity.get_location()?.get_spelling_location();
        let file = location.file.map(|file| file.get_path()).unwrap_or_default();
        let place =
            format!("{}:{}", file.file_name().unwrap_or_default().to_string_lossy(), location.line);
        let declared: Vec<_> = arguments
            .iter()
            .map(|one| {
                let kind = one.get_type().map(|kind| kind.get_display_name()).unwrap_or_default();
                declarator(&kind, &one.get_name().unwrap_or_default())
            })
            .collect();
        let more = if kind.is_variadic() { ", ..." } else { "" };
        let result = kind.get_result_type()?.get_display_name();
        let declaration = declarator(&result, &format!("{name}({}{more})", declared.join(", ")));
        Some(Function { name, declaration, place, prototype })
    }

    /// The names of the macros that may be constants.
    fn macros(&self, unit: &Entity<'_>) -> Vec<String> {
        let mut names = Vec::new();
        unit.visit_children(|entity, _| {
            if entity.get_kind() == EntityKind::MacroDefinition
                && !entity.is_function_like_macro()
                && !entity.is_builtin_macro()
                && file_of(&entity).is_some_and(|file| self.files.contains(&file))
                && constants::may_be_value(&entity)
            {
                names.extend(entity.get_name());
            }
            EntityVisitResult::Continue
        });
        names
    }

    fn enumerators(&self, unit: &Entity<'_>) -> Vec<Constant> {
        let mut constants = Vec::new();
        unit.visit_children(|entity, _| {
            if entity.get_kind() == EntityKind::EnumDecl
                && file_of(&entity).is_some_and(|file| self.files.contains(&file))
            {
                let kind = entity
                    .get_enum_underlying_type()
                    .and_then(|kind| number(kind.get_canonical_type().get_kind()));
                for one in entity.get_children() {
                    if let (Some(name), Some((signed, _)), Some(kind)) =
                        (one.get_name(), one.get_enum_constant_value(), kind)
                    {
                        constants.push(Constant { name, value: Value::Integer(kind, signed) });
                    }
                }
            }
            EntityVisitResult::Continue
        });
        constants
    }
}

/// The canonical path of the file in which something is declared.
fn file_of(entity: &Entity<'_>) -> Option<PathBuf> {
    let file = entity.get_location()?.get_spelling_location().file?;
    file.get_path().canonicalize().ok()
}

/// A declaration of `name` with the type `kind`, near enough to C to be read.
fn declarator(kind: &str, name: &str) -> String {
    match kind.split_once("(*)") {
        Some((result, parameters)) => format!("{result}(*{name}){parameters}"),
        None if kind.ends_with('*') => format!("{kind}{name}"),
        None => format!("{kind} {name}").trim_end().to_owned(),
    }
}
