//! Changes on the text of a `weir.toml`: everything else stays as it is.
//!
//! A comment belongs to the key or section below it, up to a blank line. It is deleted with its section; all other
//! comments stay, near their old place.

use std::fmt::Write as _;

use toml_edit::{Decor, DocumentMut, Item, Table, TableLike};

use crate::table::Section;

use super::{Assignment, Edits, EntryKind, Keys, Sum, Value};

/// Whether a text of TOML has no setting: it is empty, or has comments only. Then the panel is served, to set one up.
pub fn is_blank(text: &str) -> bool {
    text.trim_start_matches('\u{feff}').parse::<DocumentMut>().is_ok_and(|document| document.is_empty())
}

/// The text with the changes made on it; `None` if it is not TOML, or its pools are not in a table.
pub fn rewrite(text: &str, edits: &Edits) -> Option<String> {
    let (mark, body) = text.strip_prefix('\u{feff}').map_or(("", text), |body| ("\u{feff}", body));
    let crlf = body.contains("\r\n");
    let mut document: DocumentMut = body.replace("\r\n", "\n").parse().ok()?;
    for assign in edits.settings.values() {
        set(&mut document, assign)?;
    }
    for ((about, name), sum) in &edits.sections {
        match sum {
            Sum::Gone => delete(&mut document, *about, name)?,
            Sum::Made { keys, .. } => {
                delete(&mut document, *about, name)?;
                make(&mut document, *about, name, keys)?;
            }
            Sum::Altered(keys) => alter(&mut document, *about, name, keys)?,
        }
    }
    for (user, secret) in &edits.secrets {
        list(&mut document, user, secret.clone())?;
    }
    let text = document.to_string();
    let text = if crlf { text.replace('\n', "\r\n") } else { text };
    Some(format!("{mark}{text}"))
}

fn sections(document: &mut DocumentMut, about: EntryKind) -> Option<&mut dyn TableLike> {
    inside(document, Some(about.section().name()))
}

/// The table that contains sections: the whole file, or the section of this name.
fn inside<'a>(document: &'a mut DocumentMut, outer: Option<&str>) -> Option<&'a mut dyn TableLike> {
    let Some(outer) = outer else { return Some(document.as_table_mut()) };
    let item = document.entry(outer).or_insert_with(|| {
        let mut table = Table::new();
        table.set_implicit(true);
        Item::Table(table)
    });
    item.as_table_like_mut()
}

fn make(document: &mut DocumentMut, about: EntryKind, name: &str, keys: &Keys) -> Option<()> {
    begin(document, Some(about.section().name()), name, keys)
}

/// Appends a new section to the file, after a blank line.
fn begin(document: &mut DocumentMut, outer: Option<&str>, name: &str, keys: &Keys) -> Option<()> {
    let end = last_position(document.as_table()) + 1;
    let trailing = document.trailing().as_str().unwrap_or_default().to_owned();
    let inline = outer.and_then(|outer| document.get(outer)).is_some_and(Item::is_inline_table);
    let sections = inside(document, outer)?;
    let mut table = keys.table();
    if inline || (outer.is_some() && sections.iter().any(|(_, item)| item.is_inline_table())) {
        sections.insert(name, Item::Value(table.into_inline_table().into()));
        return Some(());
    }
    table.set_position(end);
    // One blank line more than the file ends with, so that deleting the section restores the file.
    let blank = if trailing.is_empty() || trailing.ends_with('\n') { "\n" } else { "\n\n" };
    table.decor_mut().set_prefix(format!("{trailing}{blank}"));
    sections.insert(name, Item::Table(table));
    document.set_trailing("");
    Some(())
}

fn alter(document: &mut DocumentMut, about: EntryKind, name: &str, keys: &Keys) -> Option<()> {
    match sections(document, about)?.get_mut(name) {
        Some(item) => {
            let left = fill(item.as_table_like_mut()?, Some(about.section()), keys);
            let position = position_of(item);
            say_below(document, position, &left);
        }
        None if about == EntryKind::User && !keys.table().is_empty() => make(document, about, name, keys)?,
        None => {}
    }
    Some(())
}

/// Sets or removes a user's secret, in `[auth.users]`.
fn list(document: &mut DocumentMut, user: &str, secret: Option<String>) -> Option<()> {
    let (outer, name) = (Section::Auth.name(), "users");
    let keys = Keys { about: EntryKind::User, keys: [(user.to_owned(), secret.map(Value::Text))].into() };
    put(document, (Some(outer), name), None, &keys)
}

fn set(document: &mut DocumentMut, assign: &Assignment) -> Option<()> {
    let (section, value) = (assign.setting().section, assign.value());
    let (outer, name) = section.name().split_once('.').map_or((None, section.name()), |(o, name)| (Some(o), name));
    let keys = Keys { about: EntryKind::default(), keys: [(assign.setting().name.to_owned(), value)].into() };
    put(document, (outer, name), Some(section), &keys)
}

/// Sets keys in a section; creates the section if needed.
fn put(
    document: &mut DocumentMut,
    (outer, name): (Option<&str>, &str),
    section: Option<Section>,
    keys: &Keys,
) -> Option<()> {
    let there = match outer {
        None => document.get_mut(name),
        Some(outer) => document.get_mut(outer).and_then(Item::as_table_like_mut).and_then(|outer| outer.get_mut(name)),
    };
    match there {
        Some(item) => {
            let left = fill(item.as_table_like_mut()?, section, keys);
            let position = position_of(item);
            say_below(document, position, &left);
            Some(())
        }
        None if keys.table().is_empty() => Some(()),
        None => begin(document, outer, name, keys),
    }
}

/// Sets these keys in a section, by the names that its settings have there; returns the comment above a removed last
/// key.
fn fill(table: &mut dyn TableLike, section: Option<Section>, keys: &Keys) -> String {
    let mut left = String::new();
    for (key, value) in &keys.keys {
        let found = section.and_then(|section| section.find(key));
        let names = found.into_iter().flat_map(|setting| setting.aliases.iter().chain([&setting.name]));
        let present = names.copied().find(|name| table.contains_key(name)).unwrap_or(key);
        match value.as_ref().map(Value::toml) {
            None => left.push_str(&take_out(table, present)),
            Some(mut value) => match table.get_mut(present).and_then(Item::as_value_mut) {
                Some(old) => {
                    *value.decor_mut() = old.decor().clone();
                    *old = value;
                }
                None => drop(table.insert(present, Item::Value(value))),
            },
        }
    }
    left
}

/// Removes a key; a comment above it moves to the next key, or is returned.
pub(super) fn take_out(table: &mut dyn TableLike, key: &str) -> String {
    let said = table.key(key).and_then(|key| prefix(key.leaf_decor())).unwrap_or_default().to_owned();
    let names: Vec<String> = table.iter().map(|(name, _)| name.to_owned()).collect();
    let next = names.iter().position(|name| name == key).and_then(|at| names.get(at + 1));
    table.remove(key);
    if said.trim().is_empty() {
        return String::new();
    }
    match next.and_then(|next| table.key_mut(next)) {
        Some(mut next) => {
            put_before(next.leaf_decor_mut(), &said);
            String::new()
        }
        None => said,
    }
}

fn delete(document: &mut DocumentMut, about: EntryKind, name: &str) -> Option<()> {
    let Some(item) = sections(document, about)?.remove(name) else { return Some(()) };
    let said = item.as_table().and_then(|table| prefix(table.decor())).unwrap_or_default();
    // The section's own comment is deleted with it; a comment further up was about something else.
    let others = said.rfind("\n\n").map_or("", |blank| &said[..=blank]);
    let others = if others.trim().is_empty() { "" } else { others };
    say_below(document, position_of(&item), others);
    Some(())
}

fn position_of(item: &Item) -> Option<isize> {
    item.as_table().and_then(Table::position)
}

/// Puts a comment above the section that follows a position, or at the end.
fn say_below(document: &mut DocumentMut, position: Option<isize>, said: &str) {
    if said.is_empty() {
        return;
    }
    let next = position.and_then(|position| next_section(document.as_table_mut(), position));
    match next {
        Some(table) => put_before(table.decor_mut(), said),
        None => {
            let mut text = said.to_owned();
            let _ = write!(text, "{}", document.trailing().as_str().unwrap_or_default());
            document.set_trailing(text);
        }
    }
}

fn put_before(decor: &mut Decor, said: &str) {
    let own = prefix(decor).unwrap_or_default();
    decor.set_prefix(format!("{said}{own}"));
}

fn prefix(decor: &Decor) -> Option<&str> {
    decor.prefix().and_then(|prefix| prefix.as_str())
}

fn last_position(table: &Table) -> isize {
    let below = table.iter().filter_map(|(_, item)| item.as_table()).map(last_position).max();
    below.unwrap_or(0).max(table.position().unwrap_or(0))
}

/// The first section after a position.
fn next_section(table: &mut Table, position: isize) -> Option<&mut Table> {
    let mut nearest: Option<&mut Table> = None;
    for (_, item) in table.iter_mut() {
        let Item::Table(child) = item else { continue };
        let own = child.position().filter(|own| *own > position && !child.is_implicit() && !child.is_dotted());
        let found = if own.is_some() { Some(child) } else { next_section(child, position) };
        let place = |table: &Table| table.position().unwrap_or(isize::MAX);
        if found.as_ref().is_some_and(|found| nearest.as_ref().is_none_or(|best| place(found) < place(best))) {
            nearest = found;
        }
    }
    nearest
}
