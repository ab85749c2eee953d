//! Ident maps: which system user may log in as which database user (PostgreSQL's documentation, "User Name Maps";
//! PgBouncer's, "Ident map file format").
//!
//! A map pairs a name proven by a certificate, the operating system or a token with the users that it may log in as. Names
//! are compared exactly. A proven name that begins with a slash is a pattern, as in PostgreSQL, and `\1` in the user stands
//! for what the pattern's first group has found; PgBouncer has no patterns.

use std::collections::BTreeMap;

use regex_lite::{Regex, RegexBuilder};

use crate::fields::{Field, RuleError, Word, records, shown};

/// The maps of an ident file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdentMaps {
    maps: BTreeMap<String, Vec<Pair>>,
}

/// The most bytes of a compiled pattern.
const MOST_OF_PATTERN: usize = 64 << 10;
/// The longest name that a pattern is compared with, in bytes.
const LONGEST_NAME: usize = 1000;
/// What stands for a group's text in a user.
const GROUP: &str = "\\1";

#[derive(Clone, Debug, PartialEq, Eq)]
struct Pair {
    proven: Proven,
    user: Who,
}

#[derive(Clone, Debug)]
enum Proven {
    Name(String),
    Pattern(Regex),
}

impl PartialEq for Proven {
    fn eq(&self, other: &Proven) -> bool {
        match (self, other) {
            (Proven::Name(one), Proven::Name(other)) => one == other,
            (Proven::Pattern(one), Proven::Pattern(other)) => one.as_str() == other.as_str(),
            _ => false,
        }
    }
}

impl Eq for Proven {}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Who {
    /// `all`.
    Anybody,
    User(String),
}

impl IdentMaps {
    /// Reads a file of lines `MAP SYSTEM-USER DATABASE-USER`.
    ///
    /// # Errors
    ///
    /// All invalid lines, each with how to fix it.
    pub fn parse(text: &str) -> Result<IdentMaps, Vec<RuleError>> {
        let mut maps: BTreeMap<String, Vec<Pair>> = BTreeMap::new();
        for (map, pair) in records(text, |_, fields| record(fields))? {
            maps.entry(map).or_default().push(pair);
        }
        Ok(IdentMaps { maps })
    }

    /// Whether `map` lets `system_user`, a name that was proven, log in as `user`. A missing map allows no user.
    pub fn allows(&self, map: &str, system_user: &str, user: &str) -> bool {
        let mut pairs = self.maps.get(map).into_iter().flatten();
        pairs.any(|pair| pair.allows(system_user, user))
    }

    /// Whether a name that was proven may log in as `user`: by a map, or without one if the two are the same.
    pub fn lets(&self, map: Option<&str>, proven: &str, user: &str) -> bool {
        match map {
            Some(map) => self.allows(map, proven, user),
            None => proven == user,
        }
    }

    /// Whether the map exists.
    pub fn has(&self, map: &str) -> bool {
        self.maps.contains_key(map)
    }
}

impl Pair {
    fn allows(&self, proven: &str, user: &str) -> bool {
        let found = match &self.proven {
            Proven::Name(name) if name == proven => None,
            Proven::Pattern(pattern) if proven.len() <= LONGEST_NAME => match pattern.captures(proven) {
                Some(found) => Some(found),
                None => return false,
            },
            _ => return false,
        };
        match (&self.user, found) {
            (Who::Anybody, _) => true,
            (Who::User(name), None) => name == user,
            (Who::User(name), Some(found)) if name.contains(GROUP) => {
                // PostgreSQL refuses, too, where the group takes no part in the match. An empty name is no user's.
                found.get(1).is_some_and(|group| name.replacen(GROUP, group.as_str(), 1) == user && !user.is_empty())
            }
            (Who::User(name), Some(_)) => name == user,
        }
    }
}

/// The error of a rule whose map is missing.
pub(crate) fn no_map(map: &str) -> String {
    format!("the ident file (auth_ident_file) has no map {}: add its lines there", shown(map))
}

fn record(fields: Vec<Field>) -> Result<(String, Pair), String> {
    if let [directive, _] = fields.as_slice()
        && let [Word::Bare(name)] = directive.as_slice()
        && matches!(name.as_str(), "include" | "include_if_exists" | "include_dir")
    {
        return Err(format!("{name} is not supported: copy the lines of that file to this place"));
    }
    let words: Vec<Word> = fields.into_iter().map(single).collect::<Result<_, _>>()?;
    let count = words.len();
    let Ok([map, system_user, user]) = <[Word; 3]>::try_from(words) else {
        return Err(format!("a line reads MAP SYSTEM-USER DATABASE-USER, three words; this one has {count}"));
    };
    let user = match user.keyword() {
        "all" => Who::Anybody,
        role if role.starts_with('+') => {
            return Err(format!("{} is not supported, for roles are not known here: list the users", shown(role)));
        }
        _ if user.text().starts_with('/') => {
            return Err(format!("a pattern for users is not supported ({}): list the users", shown(user.text())));
        }
        _ => Who::User(name(user)?),
    };
    let proven = match system_user.text().strip_prefix('/') {
        Some(pattern) => Proven::Pattern(compiled(pattern, &user)?),
        None => Proven::Name(name(system_user)?),
    };
    Ok((name(map)?, Pair { proven, user }))
}

fn single(mut field: Field) -> Result<Word, String> {
    match (field.pop(), field.is_empty()) {
        (Some(word), true) => Ok(word),
        _ => Err("an ident line takes no list: write a line for each name".into()),
    }
}

fn compiled(pattern: &str, user: &Who) -> Result<Regex, String> {
    let compiled = RegexBuilder::new(pattern).size_limit(MOST_OF_PATTERN).build();
    let regex = compiled.map_err(|error| format!("invalid pattern {}: {error}", shown(pattern)))?;
    let has_group = regex.captures_len() > 1;
    if matches!(user, Who::User(name) if name.contains(GROUP)) && !has_group {
        return Err(format!("the user has \\1, but the pattern {} has no group: add parentheses", shown(pattern)));
    }
    Ok(regex)
}

fn name(word: Word) -> Result<String, String> {
    let (Word::Bare(name) | Word::Quoted(name)) = word;
    if name.is_empty() { Err("an empty name matches no user: remove the line".into()) } else { Ok(name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
        # comment\n\
        gui user bottom\n\
        gui user2 rapouille # more\n\
        gui \"user 3\" all\n\
        triche jiji \"all\"\n\
        triche all crapule\n";

    #[test]
    fn a_map_pairs_proven_names_with_users() {
        let maps = IdentMaps::parse(FILE).unwrap();
        let table = [
            ("gui", "user", "bottom", true),
            ("gui", "user", "rapouille", false),
            ("gui", "user", "user", false),
            ("gui", "User", "bottom", false),
            ("gui", "user2", "rapouille", true),
            ("gui", "user 3", "anybody", true),
            ("triche", "jiji", "all", true),
            ("triche", "jiji", "anybody", false),
            ("triche", "all", "crapule", true),
            ("triche", "anybody", "crapule", false),
            ("triche", "user", "bottom", false),
            ("nothing", "user", "bottom", false),
            ("", "", "", false),
        ];
        for (map, system_user, user, expected) in table {
            assert_eq!(maps.allows(map, system_user, user), expected, "{map} {system_user} {user}");
        }
        assert!(maps.has("gui") && maps.has("triche") && !maps.has("nothing"));
    }

    #[test]
    fn what_can_not_be_used_is_refused_with_its_line() {
        let text = "gui user\ngui a b c\n\nguo /(a robtnik\ninclude other.conf\ngui a,b c\ngui a +staff\n\
                    gui a \"/x\"\ngui \"\" b\ngui \"a b\nok a b\n";
        let expected = [
            (1, "this one has 2"),
            (2, "this one has 4"),
            (4, "invalid pattern \"(a\""),
            (5, "include is not supported"),
            (6, "takes no list"),
            (7, "\"+staff\" is not supported"),
            (8, "a pattern for users is not supported"),
            (9, "an empty name"),
            (10, "a quote is not closed"),
        ];
        let errors = IdentMaps::parse(text).unwrap_err();
        assert_eq!(errors.len(), expected.len(), "{errors:#?}");
        for (error, (line, text)) in errors.iter().zip(expected) {
            assert!(error.line == line && error.message.contains(text), "{error}");
        }
    }

    #[test]
    fn a_pattern_finds_the_user_in_the_proven_name() {
        let text = "m /^(.*)@example\\.com$ \\1\nm \"/^admin[0-9]+$\" root\nm /^guest_ all\nm /(x)|y pre_\\1_\\1\n\
                    m ann@example.org \"\\1\"\n";
        let maps = IdentMaps::parse(text).unwrap();
        let table = [
            ("ann@example.com", "ann", true),
            ("ann@example.com", "bob", false),
            ("ann@example.com", "Ann", false),
            ("ann@example.com.evil", "ann", false),
            ("ann@example_com", "ann", false),
            ("@example.com", "", false),
            ("admin1", "root", true),
            ("admin", "root", false),
            ("xadmin1", "root", false),
            ("guest_1", "anybody", true),
            // As in PostgreSQL, a pattern without anchors matches anywhere, and the first \\1 is replaced.
            ("axb", "pre_x_\\1", true),
            ("y", "pre__\\1", false),
            ("y", "pre_y_\\1", false),
            ("ann@example.org", "\\1", true),
            ("ann@example.org", "ann", false),
        ];
        for (proven, user, expected) in table {
            assert_eq!(maps.allows("m", proven, user), expected, "{proven} {user}");
        }
        let long = format!("{}@example.com", "a".repeat(LONGEST_NAME));
        assert!(!maps.allows("m", &long, &long[..LONGEST_NAME]));
        for (line, part) in [("m /^a$ \\1", "has no group"), ("m / all", "")] {
            let found = IdentMaps::parse(line).map_err(|errors| errors[0].message.clone());
            assert_eq!(found.is_err(), !part.is_empty(), "{line}");
            assert!(found.err().is_none_or(|error| error.contains(part)), "{line}");
        }
        assert!(IdentMaps::parse(&format!("m /{} a", "(a{100}){100}")).is_err(), "its size is bounded");
    }

    #[test]
    fn an_empty_file_allows_no_user() {
        assert!(!IdentMaps::parse("").unwrap().allows("", "", ""));
    }
}
