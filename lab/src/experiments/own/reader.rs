//! Reads TOML tables: typed values, and errors with the line and what to do.
//!
//! Must not know the keys: callers list them, and an unknown key is an error.

use std::ops::RangeInclusive;

use toml_edit::{Document, Item, TableLike, Value};

/// An error in a file, with its location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Complaint {
    /// From 1; `None` where something is missing from the file as a whole.
    pub(super) line: Option<usize>,
    pub(super) text: String,
}

/// One table, whose keys have been checked.
#[derive(Clone, Copy)]
pub(super) struct Section<'a> {
    text: &'a str,
    table: &'a dyn TableLike,
    /// The section's name in the file: `[workload]`; empty for the whole file.
    title: &'a str,
    /// The section's first line.
    line: Option<usize>,
}

/// Reads a whole file; its top-level keys are `known`.
pub(super) fn read<T>(
    text: &str,
    known: &[&str],
    make: impl FnOnce(Section<'_>) -> Result<T, Complaint>,
) -> Result<T, Complaint> {
    let document = Document::parse(text).map_err(|error| {
        let line = error.span().map(|span| line_at(text, span.start));
        Complaint { line, text: format!("this is not TOML: {}", error.message()) }
    })?;
    let section = Section { text, table: document.as_table(), title: "", line: None };
    section.knows(known)?;
    make(section)
}

impl<'a> Section<'a> {
    /// An error about the first key that is not among these.
    fn knows(&self, known: &[&str]) -> Result<(), Complaint> {
        let Some((key, _)) = self.table.iter().find(|(key, _)| !known.contains(key)) else { return Ok(()) };
        let place = if self.title.is_empty() { String::new() } else { format!(" of {}", self.title) };
        let hint = nearest(key, known)
            .map_or_else(|| format!("there are {}", known.join(", ")), |near| format!("did you mean `{near}`?"));
        Err(self.at(key, format!("`{key}` is no key{place}: {hint}")))
    }

    /// The table of this name, `[name]`.
    pub(super) fn section(&self, name: &str, title: &'a str, known: &[&str]) -> Result<Section<'a>, Complaint> {
        let Some(item) = self.table.get(name) else {
            return Err(Complaint { line: None, text: format!("{title} is missing") });
        };
        let table = item.as_table_like().ok_or_else(|| self.at(name, format!("`{name}` is a table: {title}")))?;
        self.below(table, title, item, known)
    }

    /// The tables of this name, `[[name]]`, at least one.
    pub(super) fn sections(&self, name: &str, title: &'a str, known: &[&str]) -> Result<Vec<Section<'a>>, Complaint> {
        let Some(item) = self.table.get(name) else {
            return Err(Complaint { line: None, text: format!("{title} is missing: at least one must be measured") });
        };
        let wrong = || self.at(name, format!("`{name}` is a list of tables: {title}"));
        let tables = item.as_array_of_tables().ok_or_else(wrong)?;
        let each = tables.iter().map(|table| {
            let line = table.span().map(|span| line_at(self.text, span.start));
            let section = Section { text: self.text, table, title, line };
            section.knows(known).map(|()| section)
        });
        each.collect()
    }

    fn below(
        &self,
        table: &'a dyn TableLike,
        title: &'a str,
        item: &Item,
        known: &[&str],
    ) -> Result<Section<'a>, Complaint> {
        let line = item.span().map(|span| line_at(self.text, span.start));
        let section = Section { text: self.text, table, title, line };
        section.knows(known)?;
        Ok(section)
    }

    /// Whether the key exists.
    pub(super) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// A non-empty text.
    pub(super) fn text(&self, key: &str) -> Result<Option<String>, Complaint> {
        self.typed(key, "text in quotes", |value| {
            value.as_str().filter(|text| !text.trim().is_empty()).map(str::to_owned)
        })
    }

    /// A required text; `what` is its purpose.
    pub(super) fn required(&self, key: &str, what: &str) -> Result<String, Complaint> {
        self.text(key)?.ok_or_else(|| self.lacks(key, what))
    }

    pub(super) fn lacks(&self, key: &str, what: &str) -> Complaint {
        Complaint { line: self.line, text: format!("{} lacks `{key}`: {what}", self.title) }
    }

    /// One of some words.
    pub(super) fn word<T: Copy>(&self, key: &str, words: &[(&str, T)]) -> Result<Option<T>, Complaint> {
        let names: Vec<_> = words.iter().map(|(name, _)| format!("\"{name}\"")).collect();
        let find = |value: &Value| words.iter().find(|(name, _)| value.as_str() == Some(name)).map(|(_, found)| *found);
        self.typed(key, &format!("one of {}", names.join(", ")), find)
    }

    /// A whole number.
    pub(super) fn number(&self, key: &str, range: RangeInclusive<u32>) -> Result<Option<u32>, Complaint> {
        let what = format!("a whole number from {} to {}", range.start(), range.end());
        self.typed(key, &what, |value| whole(value, &range))
    }

    /// A list of whole numbers, at least one; or a single number.
    pub(super) fn numbers(&self, key: &str, range: RangeInclusive<u32>) -> Result<Option<Vec<u32>>, Complaint> {
        let what = format!("a list of whole numbers from {} to {}", range.start(), range.end());
        self.typed(key, &what, |value| match value {
            Value::Array(items) if !items.is_empty() => items.iter().map(|item| whole(item, &range)).collect(),
            single => whole(single, &range).map(|number| vec![number]),
        })
    }

    /// True or false.
    pub(super) fn flag(&self, key: &str) -> Result<Option<bool>, Complaint> {
        self.typed(key, "true or false", Value::as_bool)
    }

    /// A table of names and simple values, as text.
    pub(super) fn settings(&self, key: &str) -> Result<Vec<(String, String)>, Complaint> {
        let Some(item) = self.table.get(key) else { return Ok(Vec::new()) };
        let table = item.as_table_like().ok_or_else(|| self.at(key, format!("`{key}` is a table of settings")))?;
        let plain = |(name, item): (&str, &Item)| {
            let value = match item.as_value() {
                Some(Value::String(text)) => Some(text.value().clone()),
                Some(Value::Integer(number)) => Some(number.value().to_string()),
                Some(Value::Float(number)) => Some(number.value().to_string()),
                Some(Value::Boolean(flag)) => Some(flag.value().to_string()),
                _ => None,
            };
            let wrong = || self.at(key, format!("`{key}.{name}` must be text, a number, true or false"));
            value.map(|value| (name.to_owned(), value)).ok_or_else(wrong)
        };
        table.iter().map(plain).collect()
    }

    /// An error about the line of this key.
    pub(super) fn at(&self, key: &str, text: impl Into<String>) -> Complaint {
        let found = self.table.get_key_value(key);
        let span = found.and_then(|(key, item)| key.span().or_else(|| item.span()));
        let line = span.map_or(self.line, |span| Some(line_at(self.text, span.start)));
        Complaint { line, text: text.into() }
    }

    fn typed<T>(&self, key: &str, what: &str, read: impl FnOnce(&Value) -> Option<T>) -> Result<Option<T>, Complaint> {
        let Some(item) = self.table.get(key) else { return Ok(None) };
        let value = item.as_value().and_then(read);
        value.map(Some).ok_or_else(|| self.at(key, format!("`{key}` must be {what}")))
    }
}

fn whole(value: &Value, range: &RangeInclusive<u32>) -> Option<u32> {
    value.as_integer().and_then(|number| u32::try_from(number).ok()).filter(|number| range.contains(number))
}

fn line_at(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count()
}

/// The known word that was probably meant: at most a third of its letters differ.
fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    // A word far longer than any key is no typing error, and the comparison would be slow.
    if word.len() > 64 {
        return None;
    }
    let with_distance = known.iter().map(|known| (distance(&word.to_lowercase(), known), *known));
    let (distance, near) = with_distance.min()?;
    (distance <= (near.chars().count().max(word.chars().count()) / 3).max(1)).then_some(near)
}

/// The edit distance: letters to insert, delete, replace, or swap with the next one.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<_>, Vec<_>) = (a.chars().collect(), b.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let changed = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = changed.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(text: &str) -> (Option<usize>, String) {
        let made = read(text, &["title", "workload"], |root| {
            root.text("title")?;
            let workload = root.section("workload", "[workload]", &["clients", "threads", "protocol"])?;
            workload.numbers("clients", 1..=10)?;
            workload.number("threads", 1..=4)?;
            workload.word("protocol", &[("simple", 1), ("extended", 2)])
        });
        let Complaint { line, text } = made.unwrap_err();
        (line, text)
    }

    #[test]
    fn a_complaint_names_the_line_and_what_would_be_right() {
        for (text, line, says) in [
            ("title = \"x\"\ntitel = 1", Some(2), "`titel` is no key: did you mean `title`?"),
            ("[workload]\n\nclents = 1", Some(3), "`clents` is no key of [workload]: did you mean `clients`?"),
            ("[workload]\ncolour = 1", Some(2), "there are clients, threads, protocol"),
            ("[workload]\nthreads = 5", Some(2), "`threads` must be a whole number from 1 to 4"),
            ("[workload]\nclients = [1, 11]", Some(2), "a list of whole numbers from 1 to 10"),
            ("[workload]\nclients = []", Some(2), "a list of whole numbers"),
            ("[workload]\nprotocol = \"fast\"", Some(2), "one of \"simple\", \"extended\""),
            ("title = ''", Some(1), "`title` must be text in quotes"),
            ("title = \"x\"", None, "[workload] is missing"),
            ("workload = 3", Some(1), "is a table: [workload]"),
            ("\n\nx = = 1", Some(3), "this is not TOML"),
        ] {
            let (at, said) = complaint(text);
            assert_eq!(at, line, "{text}: {said}");
            assert!(said.contains(says), "{text}: {said}");
        }
    }
}
