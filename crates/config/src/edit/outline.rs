//! The outline of a `weir.toml`: its keys and values without comments and without secrets, to keep as a version and to
//! return to.
//!
//! A secret is replaced by a mark that no setting accepts as a value. Returning to an outline changes a file's present
//! text key by key: its comments stay, and a withheld secret keeps its present value, or must be given again. A
//! withheld place (a file or a variable that a secret is read from, a target of alerts or of LDAP) keeps its present
//! value, and can be given only in the file. Who may use the control plane is no part of an outline.

use std::collections::{BTreeMap, BTreeSet};

use toml_edit::{DocumentMut, InlineTable, Item, Table, TableLike};

use crate::kind::Kind;
use crate::queries::{HIDDEN_QUERY, is_query};
use crate::table::{Section, Setting};

use super::Value;
use super::changes::{KeyChange, PRESENT, SECRET_TEXT, object_of};
use super::rewrite::take_out;

/// The key of the mark that stands for a secret.
const MARK: &str = "withheld";

/// The path of a key, from the outermost section.
pub(super) type Path<'a> = [&'a str];

/// A return to an earlier version of the file.
#[derive(Clone, PartialEq)]
pub struct Restore {
    /// The version's outline, made by [`outline`].
    pub outline: String,
    /// Secrets by their dotted keys, for those that the present file does not have.
    pub secrets: BTreeMap<String, String>,
}

impl std::fmt::Debug for Restore {
    // A secret must not reach a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Restore").field("secrets", &self.secrets.keys()).finish_non_exhaustive()
    }
}

/// Why a file can't return to an outline.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NotRestored {
    /// The file or the outline is no TOML, or has another shape.
    Unreadable,
    /// The secrets of these keys were withheld, and the file has none now.
    Secrets(Vec<String>),
    /// The places of these keys were withheld, and the file has none now; or they were given, which is not allowed.
    Places(Vec<String>),
}

/// The keys and values of a file as TOML, without comments and secrets; `None` if it is not TOML.
pub fn outline(text: &str) -> Option<String> {
    let mut outline = DocumentMut::new();
    *outline.as_table_mut() = bare(parse(text)?.as_table(), &[]);
    Some(outline.to_string())
}

/// An outline without its queries, for those who may not change them; `None` if it is not TOML.
pub fn hide_queries(outline: &str) -> Option<String> {
    let mut document = parse(outline)?;
    hide(document.as_table_mut());
    Some(document.to_string())
}

fn hide(table: &mut dyn TableLike) {
    for (key, item) in table.iter_mut() {
        match item.as_table_like_mut() {
            Some(inner) => hide(inner),
            None if is_query(&key) => *item = Item::Value(HIDDEN_QUERY.into()),
            None => {}
        }
    }
}

/// What differs between two outlines, by object and key. A withheld secret equals every other one.
pub fn outline_changes(old: &str, new: &str) -> Option<Vec<KeyChange>> {
    let (old, new) = (leaves(old)?, leaves(new)?);
    let keys: BTreeSet<_> = old.keys().chain(new.keys()).collect();
    let change = |path: &Vec<String>| {
        let (old, new) = (old.get(path).cloned(), new.get(path).cloned());
        let (object, key) = object_of(path);
        (old != new).then_some(KeyChange { object, key, old, new })
    };
    Some(keys.into_iter().filter_map(change).collect())
}

/// The file's text with the keys and values of an outline.
///
/// # Errors
/// See [`NotRestored`].
pub fn restore(text: &str, restore: &Restore) -> Result<String, NotRestored> {
    let (mark, body) = text.strip_prefix('\u{feff}').map_or(("", text), |body| ("\u{feff}", body));
    let crlf = body.contains("\r\n");
    let mut document = parse(body).ok_or(NotRestored::Unreadable)?;
    let wanted = parse(&restore.outline).ok_or(NotRestored::Unreadable)?;
    let mut aligner = Aligner { secrets: &restore.secrets, missing: Vec::new(), places: Vec::new() };
    aligner.align(document.as_table_mut(), wanted.as_table(), &[]).ok_or(NotRestored::Unreadable)?;
    let Aligner { missing, places, .. } = aligner;
    if !places.is_empty() {
        return Err(NotRestored::Places(places));
    }
    if !missing.is_empty() {
        return Err(NotRestored::Secrets(missing));
    }
    let text = document.to_string();
    Ok(format!("{mark}{}", if crlf { text.replace('\n', "\r\n") } else { text }))
}

pub(super) fn parse(text: &str) -> Option<DocumentMut> {
    text.trim_start_matches('\u{feff}').replace("\r\n", "\n").parse().ok()
}

fn bare(table: &dyn TableLike, path: &Path<'_>) -> Table {
    let mut kept = Table::new();
    for (key, item) in table.iter() {
        let path = [path, &[key]].concat();
        if is_apart(&path) {
            continue;
        }
        let item = match item.as_table_like() {
            _ if is_secret(&path) => Some(withheld()),
            Some(inner) => Some(Item::Table(bare(inner, &path))),
            None => item.as_value().and_then(Value::of).map(|value| Item::Value(value.toml())),
        };
        if let Some(item) = item {
            kept.insert(key, item);
        }
    }
    // A section without keys is still a section.
    kept.set_implicit(!kept.is_empty() && kept.iter().all(|(_, item)| item.is_table()));
    kept
}

fn withheld() -> Item {
    let mut mark = InlineTable::new();
    mark.insert(MARK, true.into());
    Item::Value(mark.into())
}

fn is_withheld(item: &Item) -> bool {
    item.as_inline_table().is_some_and(|table| table.contains_key(MARK))
}

/// Whether a key says who may use the control plane, or is of a user's former secret: a return to an earlier version makes
/// no old password valid again.
fn is_apart(path: &Path<'_>) -> bool {
    matches!(path, ["web", "users" | "tokens" | "oidc"] | ["users", _, "former_secret" | "former_secret_until"])
}

/// Whether a value must not be kept: secrets, and places to read them from, where one may stand by mistake.
fn is_secret(path: &Path<'_>) -> bool {
    is_password(path)
        || setting_of(path).is_some_and(|setting| setting.name.starts_with("password_") || setting.is_concealed())
}

/// Whether a value is a secret itself, which a request may give: nothing is read or sent where it says.
pub(super) fn is_password(path: &Path<'_>) -> bool {
    matches!(path, ["auth", "users", _]) || setting_of(path).is_some_and(|setting| setting.kind == Kind::Secret)
}

fn setting_of(path: &Path<'_>) -> Option<&'static Setting> {
    let (section, key) = match path {
        [section @ ("pools" | "users" | "peers" | "servers"), _, key] => ((*section).to_owned(), key),
        [outer, inner, key] => (format!("{outer}.{inner}"), key),
        [section, key] => ((*section).to_owned(), key),
        _ => return None,
    };
    Section::ALL.into_iter().find(|one| one.name() == section)?.find(key)
}

fn leaves(outline: &str) -> Option<BTreeMap<Vec<String>, String>> {
    let mut all = BTreeMap::new();
    walk(parse(outline)?.as_table(), &mut Vec::new(), &mut all);
    Some(all)
}

fn walk(table: &dyn TableLike, path: &mut Vec<String>, all: &mut BTreeMap<Vec<String>, String>) {
    for (key, item) in table.iter() {
        path.push(key.to_owned());
        match item.as_table_like() {
            _ if is_withheld(item) => drop(all.insert(path.clone(), SECRET_TEXT.to_owned())),
            Some(inner) => {
                if path.len() > 1 {
                    all.insert(path.clone(), PRESENT.to_owned());
                }
                walk(inner, path, all);
            }
            None => drop(item.as_value().and_then(Value::of).map(|value| all.insert(path.clone(), value.words()))),
        }
        path.pop();
    }
}

/// Changes a file's tables to those of an outline.
struct Aligner<'a> {
    secrets: &'a BTreeMap<String, String>,
    missing: Vec<String>,
    places: Vec<String>,
}

impl Aligner<'_> {
    fn align(&mut self, table: &mut dyn TableLike, wanted: &dyn TableLike, path: &Path<'_>) -> Option<()> {
        let known: Vec<String> = table.iter().map(|(key, _)| key.to_owned()).collect();
        for key in known.iter().filter(|key| !wanted.contains_key(key) && !is_apart(&[path, &[key]].concat())) {
            // A comment above it goes to the next key, or with it.
            drop(take_out(table, key));
        }
        for (key, item) in wanted.iter() {
            let path = [path, &[key]].concat();
            match item.as_table_like() {
                _ if is_withheld(item) => self.secret(table, key, &path),
                Some(inner) => {
                    if !table.get(key).is_some_and(Item::is_table_like) {
                        table.insert(key, Item::Table(Table::new()));
                    }
                    self.align(table.get_mut(key)?.as_table_like_mut()?, inner, &path)?;
                }
                None => put(table, key, &Value::of(item.as_value()?)?),
            }
        }
        Some(())
    }

    fn secret(&mut self, table: &mut dyn TableLike, key: &str, path: &Path<'_>) {
        let name = path.join(".");
        match self.secrets.get(&name) {
            Some(_) if !is_password(path) => self.places.push(name),
            Some(secret) => put(table, key, &Value::Text(secret.clone())),
            None if table.contains_key(key) => {}
            None if is_password(path) => self.missing.push(name),
            None => self.places.push(name),
        }
    }
}

fn put(table: &mut dyn TableLike, key: &str, value: &Value) {
    match table.get_mut(key).and_then(Item::as_value_mut) {
        Some(old) if Value::of(old).as_ref() == Some(value) => {}
        Some(old) => {
            let mut new = value.toml();
            *new.decor_mut() = old.decor().clone();
            *old = new;
        }
        None => drop(table.insert(key, Item::Value(value.toml()))),
    }
}

#[cfg(test)]
#[path = "outline_tests.rs"]
mod tests;
