//! A public type's name is unique across the crates of the pooler: who reads it, or searches for it, finds one thing.

use std::collections::BTreeMap;

use super::{Crate, code_lines, crates, product_files, read};

/// Names that several public types may have, with the reason.
const ALLOWED_TWICE: &[(&str, &str)] = &[];

#[test]
fn no_two_public_types_of_the_pooler_have_one_name() {
    let mut places = BTreeMap::<String, Vec<String>>::new();
    for Crate { folder, .. } in crates().iter().filter(|c| c.is_pooler()) {
        for file in product_files(&folder.join("src")) {
            for (number, name) in public_types(&read(&file)) {
                places.entry(name).or_default().push(format!("{}:{number}", file.display()));
            }
        }
    }
    let wrong = duplicates(&places);
    assert!(wrong.is_empty(), "names of several public types:\n{}", wrong.join("\n"));
}

#[test]
fn a_second_type_of_a_name_is_found_and_nothing_else_is_one() {
    let found = |text: &str| {
        let mut places = BTreeMap::<String, Vec<String>>::new();
        public_types(text).for_each(|(number, name)| places.entry(name).or_default().push(number.to_string()));
        duplicates(&places)
    };
    let first = "pub struct Key<'a>(&'a u8);\n";
    for second in ["pub struct Key;", "    pub enum Key {", "pub trait Key: Send {", "pub type Key = u8;"] {
        assert_eq!(found(&format!("{first}{second}")), ["Key: 1, 2"], "{second}");
    }
    let others = [
        "pub(crate) struct Key;",
        "struct Key;",
        "pub struct Keys;",
        "pub fn key() -> Key",
        "// pub struct Key;",
        "pub use a::Key;",
        "#[cfg(test)]\nmod tests {\npub struct Key;",
    ];
    others.iter().for_each(|other| assert_eq!(found(&format!("{first}{other}")), [""; 0], "{other}"));
}

/// The public types that a file defines, with their lines.
fn public_types(text: &str) -> impl Iterator<Item = (usize, String)> {
    code_lines(text).into_iter().filter_map(|(number, line)| {
        let (kind, rest) = line.trim_start().strip_prefix("pub ")?.split_once(' ')?;
        let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
        matches!(kind, "struct" | "enum" | "union" | "trait" | "type").then(|| (number, name.to_owned()))
    })
}

/// A line for each name with several places.
fn duplicates(places: &BTreeMap<String, Vec<String>>) -> Vec<String> {
    let allowed = |name: &str| ALLOWED_TWICE.iter().any(|(allowed, _)| *allowed == name);
    let wrong = places.iter().filter(|(name, at)| at.len() > 1 && !allowed(name));
    wrong.map(|(name, at)| format!("{name}: {}", at.join(", "))).collect()
}
