//! Which applications, or versions of one, came to a pool shortly before a moment: from when each name first came.
//!
//! Pure. Names that change all the time say nothing: they are left out by program, and leave the others.

use std::collections::{BTreeMap, BTreeSet};

use weir_admin::{identifier, quoted, stem};

use super::changed::{Changed, Kind};
use super::known_names::RESTLESS;

/// A name of a pool's clients.
pub(super) struct Came {
    pub(super) pool: String,
    pub(super) name: String,
    /// When it first came, in seconds since 1970.
    pub(super) at: f64,
    /// Whether it came before the moment, and not long before.
    pub(super) is_recent: bool,
}

/// The newest, at most so many.
pub(super) fn deployments(came: &[Came], most: usize) -> Vec<Changed> {
    let stems: Vec<String> = came.iter().map(|of| stem(&of.name)).collect();
    let all = || came.iter().zip(&stems);
    let old: BTreeSet<(&str, &String)> =
        all().filter(|(of, _)| !of.is_recent).map(|(of, stem)| (of.pool.as_str(), stem)).collect();
    // A program, or all that were not there before as one.
    let program =
        |of: &Came, stem: &String| (of.pool.clone(), old.contains(&(of.pool.as_str(), stem)).then(|| stem.clone()));
    let mut counts: BTreeMap<(String, Option<String>), usize> = BTreeMap::new();
    let new = || all().filter(|(of, _)| of.is_recent);
    new().for_each(|(of, stem)| *counts.entry(program(of, stem)).or_default() += 1);
    let calm = new().filter(|(of, stem)| counts[&program(of, stem)] < RESTLESS).map(|(of, _)| of);
    let mut found: Vec<Changed> =
        calm.map(|of| Changed { kind: Kind::Deployment, at: of.at, text: text(of, came) }).collect();
    found.sort_by(|a, b| b.at.total_cmp(&a.at));
    found.truncate(most);
    found
}

fn text(of: &Came, all: &[Came]) -> String {
    let (name, pool) = (quoted(&of.name), identifier(&of.pool));
    match version_before(of, all) {
        Some(before) => format!("{name} came to {pool}, a version that was not seen before ({} was)", quoted(before)),
        None => format!("{name} came to {pool}, an application that was not seen before"),
    }
}

/// The last version of the same program that came before.
fn version_before<'n>(of: &Came, all: &'n [Came]) -> Option<&'n str> {
    let (program, _) = version_of(&of.name)?;
    let others = all.iter().filter(|other| other.pool == of.pool && other.name != of.name && other.at <= of.at);
    let versions = others.filter(|other| version_of(&other.name).is_some_and(|(other, _)| other == program));
    versions.max_by(|a, b| a.at.total_cmp(&b.at)).map(|other| other.name.as_str())
}

/// A name that ends in a version, as `shop/1.4.2` or `web-v7`, as its program and its version.
fn version_of(name: &str) -> Option<(&str, &str)> {
    let (program, version) = name.rsplit_once(['/', ' ', '@', ':', '-', '_'])?;
    let digits = version.strip_prefix('v').unwrap_or(version);
    let is_version = digits.starts_with(|c: char| c.is_ascii_digit())
        && digits.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '+'));
    (is_version && !program.is_empty()).then_some((program, version))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn came(name: &str, at: f64) -> Came {
        Came { pool: "shop".to_owned(), name: name.to_owned(), at, is_recent: at > 100.0 }
    }

    #[test]
    fn names_that_change_all_the_time_are_none_and_the_version_of_another_program_is_named() {
        let alphabetic = |n: u32| char::from_u32(97 + n % 26).expect("a character").to_string();
        for invented in [|n: u32| format!("worker-{n}"), |n| format!("job {n:08x}"), alphabetic] {
            let mut all = vec![came("web/1.3", 1.0), came("job 1", 1.0)];
            all.extend((0..20).map(|n| came(&invented(n), 200.0)));
            all.push(came("web/1.4", 201.0));
            let found: Vec<String> = deployments(&all, 3).into_iter().map(|of| of.text).collect();
            assert_eq!(found, ["\"web/1.4\" came to shop, a version that was not seen before (\"web/1.3\" was)"]);
        }
    }

    #[test]
    fn the_version_before_is_the_last_one() {
        let all = [came("web/1.3", 1.0), came("web/1.2", 2.0), came("web/1.4", 200.0)];
        assert!(deployments(&all, 3)[0].text.ends_with("(\"web/1.2\" was)"), "it was rolled back");
    }

    #[test]
    fn a_version_is_the_end_of_a_name() {
        assert_eq!(version_of("shop/1.4.2"), Some(("shop", "1.4.2")));
        assert_eq!(version_of("my-web-v7"), Some(("my-web", "v7")));
        assert_eq!(version_of("PostgreSQL JDBC Driver"), None);
        assert_eq!((version_of("web"), version_of("/1.2"), version_of("a b")), (None, None, None));
    }
}
