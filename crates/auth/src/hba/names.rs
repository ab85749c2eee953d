//! The databases or users of a rule.

use std::collections::BTreeSet;
use std::path::Path;

use crate::fields::{Field, Word, fields, shown};

/// Reads the file of an `@file`: gets its name, returns its text or an error.
pub(crate) type Reader<'a> = dyn Fn(&str) -> Result<String, String> + 'a;

/// The deepest nesting of files of names, as in PostgreSQL.
const MAX_DEPTH: usize = 10;
/// The most files of names that one HBA file may include.
const MAX_FILES: usize = 1000;

/// The column of a list of names; the keywords differ by column.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Column {
    Databases,
    Users,
}

/// A list of names and keywords.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Names {
    keywords: BTreeSet<Keyword>,
    exact: BTreeSet<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Keyword {
    All,
    /// The database with the user's name.
    SameUser,
    /// Physical replication connections, which have no database.
    Replication,
}

impl Keyword {
    fn as_str(self) -> &'static str {
        match self {
            Keyword::All => "all",
            Keyword::SameUser => "sameuser",
            Keyword::Replication => "replication",
        }
    }
}

/// Reads files of names, within limits.
pub(super) struct Files<'a> {
    read: &'a Reader<'a>,
    left: usize,
}

impl<'a> Files<'a> {
    pub(super) fn new(read: &'a Reader<'a>) -> Self {
        Files { read, left: MAX_FILES }
    }

    fn text(&mut self, name: &str, depth: usize) -> Result<String, String> {
        if depth >= MAX_DEPTH {
            return Err(format!("{} is {MAX_DEPTH} files deep: name fewer files in files", shown(name)));
        }
        self.left =
            self.left.checked_sub(1).ok_or_else(|| format!("more than {MAX_FILES} files of names: join some"))?;
        (self.read)(name).map_err(|why| format!("can not read the file of names {}: {why}", shown(name)))
    }
}

impl Names {
    /// Reads a field.
    pub(super) fn read(field: Field, column: Column, files: &mut Files<'_>) -> Result<Names, String> {
        let mut names = Names::default();
        for word in field {
            names.add(word, column, files, Path::new(""), 0)?;
        }
        Ok(names)
    }

    /// Whether physical replication connections match.
    pub(super) fn hold_replication(&self) -> bool {
        self.keywords.contains(&Keyword::Replication)
    }

    /// Whether `name` matches; `user` is the requested user.
    pub(super) fn hold(&self, name: &str, user: &str) -> bool {
        let by_keyword = self.keywords.iter().any(|keyword| match keyword {
            Keyword::All => true,
            Keyword::SameUser => name == user,
            Keyword::Replication => false,
        });
        by_keyword || self.exact.contains(name)
    }

    /// The keywords, then the names; a name that reads like a keyword is in quotes.
    pub(super) fn shown(&self) -> Vec<String> {
        let keywords = self.keywords.iter().map(|keyword| keyword.as_str().to_owned());
        let reserved = ["all", "sameuser", "replication"];
        let names = self
            .exact
            .iter()
            .map(|name| if reserved.contains(&name.as_str()) { format!("\"{name}\"") } else { name.clone() });
        keywords.chain(names).collect()
    }

    /// Adds a word of the file in `folder`, included through `depth` other files.
    fn add(
        &mut self,
        word: Word,
        column: Column,
        files: &mut Files<'_>,
        folder: &Path,
        depth: usize,
    ) -> Result<(), String> {
        match (word.keyword(), column) {
            ("all", _) => self.keywords.insert(Keyword::All),
            ("sameuser", Column::Databases) => self.keywords.insert(Keyword::SameUser),
            ("replication", Column::Databases) => self.keywords.insert(Keyword::Replication),
            (same @ ("samerole" | "samegroup"), Column::Databases) => {
                return Err(format!("{same} is not supported, for roles are not known here: list the names"));
            }
            (file, _) if file.starts_with('@') => return self.add_file(&file[1..], column, files, folder, depth),
            (role, _) if role.starts_with('+') => {
                return Err(format!("{} is not supported, for roles are not known here: list the users", shown(role)));
            }
            _ if word.text().starts_with('/') => {
                return Err(format!("regular expressions are not supported ({}): list the names", shown(word.text())));
            }
            _ if word.text().is_empty() => return Err("an empty name matches nothing: remove it".into()),
            _ => {
                let (Word::Bare(name) | Word::Quoted(name)) = word;
                self.exact.insert(name)
            }
        };
        Ok(())
    }

    /// Adds the names in a file, separated by commas, blanks or line ends; included files are relative to its folder.
    fn add_file(
        &mut self,
        name: &str,
        column: Column,
        files: &mut Files<'_>,
        folder: &Path,
        depth: usize,
    ) -> Result<(), String> {
        if name.is_empty() {
            return Err("@ names no file: write @FILE without a blank".into());
        }
        let path = folder.join(name);
        let text = files.text(&path.to_string_lossy(), depth)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        for (line, number) in text.lines().zip(1..) {
            let at = |why| format!("{} line {number}: {why}", shown(name));
            // A comma may end a line, because the list continues in the next one.
            let line = line.trim_end().trim_end_matches(',');
            for word in fields(line).map_err(at)?.into_iter().flatten() {
                self.add(word, column, files, folder, depth + 1).map_err(at)?;
            }
        }
        Ok(())
    }
}
