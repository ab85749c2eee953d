//! Ident maps: which system user may log in as which database user (PostgreSQL's documentation, "User Name Maps";
//! PgBouncer's, "Ident map file format").
//!
//! A map pairs a name proven by a certificate or the operating system with the users that it may log in as. Names are
//! compared exactly; patterns are refused with their line, because PgBouncer does not support them.

use std::collections::BTreeMap;

use crate::fields::{Field, RuleError, Word, records, shown};

/// The maps of an ident file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdentMaps {
    maps: BTreeMap<String, Vec<Pair>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Pair {
    system_user: String,
    user: Who,
}

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
        pairs.any(|pair| {
            pair.system_user == system_user
                && match &pair.user {
                    Who::Anybody => true,
                    Who::User(name) => name == user,
                }
        })
    }

    /// Whether the map exists.
    pub fn has(&self, map: &str) -> bool {
        self.maps.contains_key(map)
    }
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
        _ => Who::User(name(user)?),
    };
    Ok((name(map)?, Pair { system_user: name(system_user)?, user }))
}

fn single(mut field: Field) -> Result<Word, String> {
    match (field.pop(), field.is_empty()) {
        (Some(word), true) => Ok(word),
        _ => Err("an ident line takes no list: write a line for each name".into()),
    }
}

fn name(word: Word) -> Result<String, String> {
    let (Word::Bare(name) | Word::Quoted(name)) = word;
    if name.starts_with('/') {
        return Err(format!("regular expressions are not supported ({}): write a line for each name", shown(&name)));
    }
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
        let text = "gui user\ngui a b c\n\nguo /^.*$/ robtnik\ninclude other.conf\ngui a,b c\ngui a +staff\n\
                    gui a \"/x\"\ngui \"\" b\ngui \"a b\nok a b\n";
        let expected = [
            (1, "this one has 2"),
            (2, "this one has 4"),
            (4, "regular expressions are not supported (\"/^.*$/\")"),
            (5, "include is not supported"),
            (6, "takes no list"),
            (7, "\"+staff\" is not supported"),
            (8, "regular expressions are not supported"),
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
    fn an_empty_file_allows_no_user() {
        assert!(!IdentMaps::parse("").unwrap().allows("", "", ""));
    }
}
