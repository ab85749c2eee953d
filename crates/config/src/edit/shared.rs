//! The two parts of a `weir.toml` in a cluster: what all nodes share, and what is each node's own.
//!
//! The table of settings decides which is which ([`Setting::is_shared`]). A shared configuration is the text of the
//! shared part, with its comments. A node runs its own file's part and the shared one, merged: the shared part of its
//! own file has no effect then. No password is in the clear in a shared text: secrets are encrypted, references (files,
//! environment) or SCRAM verifiers. The caller encrypts.

use toml_edit::{DocumentMut, Item, TableLike, Value};
use weir_auth::Secret;

use crate::elsewhere;
use crate::table::{Section, Setting};

use super::Edit;
use super::outline::{Path, is_password, parse};

/// An encrypted secret begins with this.
pub const ENCRYPTED: &str = "enc:v1:";

/// Gets the place and the text of a secret, and returns another text for it; `None` leaves it.
pub type Replace<'a, E> = dyn FnMut(&[&str], &str) -> Result<Option<String>, E> + 'a;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Shared,
    Node,
}

/// The shared part of a file's text; `None` if it is not TOML.
pub fn shared_part(text: &str) -> Option<String> {
    part(text, Part::Shared).map(|document| document.to_string())
}

/// The part of a file's text that is the node's own; `None` if it is not TOML.
pub fn node_part(text: &str) -> Option<String> {
    part(text, Part::Node).map(|document| document.to_string())
}

/// The names of the sections, or of single settings, of a text that are shared, or else those that are a node's own.
pub fn shared_sections(text: &str, shared: bool) -> Vec<String> {
    let wanted = if shared { Part::Shared } else { Part::Node };
    let Some(document) = part(text, wanted) else { return Vec::new() };
    let name = |(key, item): (&str, &Item)| match (sections_of(key).first(), item.as_table_like()) {
        (Some(section), Some(table)) if !shared && section.is_shared() => {
            table.iter().map(|(name, _)| format!("{key}.{name}")).collect::<Vec<_>>().join(", ")
        }
        _ => format!("[{key}]"),
    };
    document.iter().filter(|(key, _)| !sections_of(key).is_empty()).map(name).collect()
}

/// The text of a configuration with the node's own part of one text, and the shared part of another; `None` if one of
/// them is not TOML.
pub fn merge(node: &str, shared: &str) -> Option<String> {
    let (mut document, shared) = (part(node, Part::Node)?, part(shared, Part::Shared)?);
    for (key, item) in shared.iter() {
        let both = document.get_mut(key).and_then(Item::as_table_like_mut).zip(item.as_table_like());
        match both {
            Some((table, more)) => more.iter().for_each(|(name, item)| drop(table.insert(name, item.clone()))),
            None => drop(document.insert(key, item.clone())),
        }
    }
    Some(document.to_string())
}

/// Whether a change is one of the shared configuration.
pub fn concerns_cluster(edit: &Edit) -> bool {
    match edit {
        Edit::Pool(..) | Edit::User(..) | Edit::Restore(_) => true,
        Edit::Setting(assign) => assign.setting().is_shared(),
    }
}

/// Finds what only the file of a node itself may have: the key in a shared text, and why. Who may write into etcd must
/// not run programs on the nodes, or read their environment and files.
pub fn find_of_node(text: &str) -> Option<(String, &'static str)> {
    of_node(parse(text)?.as_table(), &[])
}

fn of_node(table: &dyn TableLike, path: &Path<'_>) -> Option<(String, &'static str)> {
    table.iter().find_map(|(key, item)| {
        let path = [path, &[key]].concat();
        match item.as_table_like() {
            Some(inner) => of_node(inner, &path),
            None if matches!(path[..], ["pools", _, "password_command"]) => {
                let why = "nodes run no program that is named in etcd; use password_file, and have a program on each node \
                           write that file";
                Some((path.join("."), why))
            }
            None if matches!(path[..], ["pools", _, "password_source"]) => {
                let why = "nodes ask for no token that is named in etcd; use password_file, and have a program on each \
                           node write that file";
                Some((path.join("."), why))
            }
            None if !is_password(&path) && item.as_str().is_some_and(elsewhere::is_reference) => {
                Some((path.join("."), "env: and file: are values of a node's own file; write the value"))
            }
            None => None,
        }
    })
}

/// Finds a secret in the clear in a shared text: its key, and how to refer to it.
pub fn find_plain_secret(text: &str) -> Option<(String, &'static str)> {
    plain_secret(parse(text)?.as_table(), &[])
}

fn plain_secret(table: &dyn TableLike, path: &Path<'_>) -> Option<(String, &'static str)> {
    table.iter().find_map(|(key, item)| {
        let path = [path, &[key]].concat();
        match item.as_table_like() {
            Some(inner) => plain_secret(inner, &path),
            None if is_password(&path) && !item.as_str().is_some_and(|text| is_no_secret(&path, text)) => {
                Some((path.join("."), remedy(&path)))
            }
            None => None,
        }
    })
}

/// Gives the place and the text of each secret to `replace`, in the clear or encrypted, and writes what that returns in
/// its place. All else of the text stays as it is. `None`: it is not TOML.
///
/// # Errors
/// The first one of `replace`.
pub fn replace_secrets<E>(text: &str, replace: &mut Replace<'_, E>) -> Result<Option<String>, E> {
    let Some(mut document) = parse(text) else { return Ok(None) };
    let changed = replace_in(document.as_table_mut(), &[], replace)?;
    Ok(Some(if changed { document.to_string() } else { text.to_owned() }))
}

fn replace_in<E>(table: &mut dyn TableLike, path: &Path<'_>, replace: &mut Replace<'_, E>) -> Result<bool, E> {
    let mut changed = false;
    for (key, item) in table.iter_mut() {
        let path = [path, &[key.get()]].concat();
        if let Some(inner) = item.as_table_like_mut() {
            changed |= replace_in(inner, &path, replace)?;
        } else if let (true, Some(value)) = (is_password(&path), item.as_value_mut())
            && let Some(text) = value.as_str().filter(|text| is_encrypted(text) || !is_no_secret(&path, text))
            && let Some(text) = replace(&path, text)?
        {
            let decor = value.decor().clone();
            *value = Value::from(text);
            *value.decor_mut() = decor;
            changed = true;
        }
    }
    Ok(changed)
}

fn is_encrypted(text: &str) -> bool {
    text.starts_with(ENCRYPTED)
}

/// Whether a secret may be read by all who can read etcd: it is encrypted, or there is none, or nobody can log in with
/// it.
fn is_no_secret(path: &Path<'_>, text: &str) -> bool {
    is_encrypted(text)
        || matches!(path[0], "auth" | "users")
            && (text.is_empty() || matches!(Secret::parse(text), Ok(Secret::Scram(_))))
}

fn remedy(path: &Path<'_>) -> &'static str {
    if path[0] == "auth" {
        "have it encrypted (\"secrets_key_file\" in [cluster] of each node), give the SCRAM verifier that PostgreSQL has in \
         pg_authid.rolpassword, or list users in a file on each node, named as \"file\" in [auth]"
    } else {
        "have it encrypted (\"secrets_key_file\" in [cluster] of each node), name a file on each node as password_file, or a \
         variable of each node's environment as password_env"
    }
}

fn part(text: &str, wanted: Part) -> Option<DocumentMut> {
    let mut document = parse(text)?;
    let keys: Vec<String> = document.iter().map(|(key, _)| key.to_owned()).collect();
    for key in keys {
        match of_section(&key) {
            // An unknown section is a mistake, which is reported when the part is read.
            None => {}
            Some(part) if part != wanted => match of_other_part(&key, &mut document, wanted) {
                true => {}
                false => drop(document.remove(&key)),
            },
            Some(_) => remove_exceptions(&key, &mut document, wanted),
        }
    }
    Some(document)
}

/// Leaves only the settings of a section that belong to the other part than the section; returns whether there are any.
fn of_other_part(key: &str, document: &mut DocumentMut, wanted: Part) -> bool {
    let Some(table) = document.get_mut(key).and_then(Item::as_table_like_mut) else { return false };
    let other: Vec<String> =
        table.iter().filter(|(name, _)| !is_exception(key, name)).map(|(name, _)| name.to_owned()).collect();
    if wanted == Part::Shared || other.len() == table.len() {
        return false;
    }
    other.iter().for_each(|name| drop(table.remove(name)));
    true
}

/// Removes the settings that belong to the other part than their section.
fn remove_exceptions(key: &str, document: &mut DocumentMut, wanted: Part) {
    let Some(table) = document.get_mut(key).and_then(Item::as_table_like_mut) else { return };
    let exceptions: Vec<String> =
        table.iter().filter(|(name, _)| is_exception(key, name)).map(|(name, _)| name.to_owned()).collect();
    exceptions.iter().for_each(|name| drop(table.remove(name)));
    if wanted == Part::Shared && !exceptions.is_empty() && table.is_empty() {
        document.remove(key);
    }
}

/// Whether a setting of a shared section is each node's own.
fn is_exception(section: &str, name: &str) -> bool {
    let found = sections_of(section).into_iter().find_map(|section| section.find(name));
    found.is_some_and(|setting: &Setting| setting.section.is_shared() && setting.of_node)
}

fn of_section(key: &str) -> Option<Part> {
    sections_of(key).first().map(|section| if section.is_shared() { Part::Shared } else { Part::Node })
}

/// The sections that a key of the outermost table holds.
fn sections_of(key: &str) -> Vec<Section> {
    Section::ALL.into_iter().filter(|section| section.name().split('.').next() == Some(key)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings;

    const NODE: &str = "# of the node\n[listen]\nport = 1\n\n[general]\nworkers = 4\nmode = \"session\"\n\n[cluster]\n\
                        node = \"a\"\n\n[web]\nport = 2\n\n[pools.old]\nhost = \"h\"\n";
    const SHARED: &str = "[general]\nmode = \"transaction\"\nworkers = 9\n\n# who\n[auth]\ntype = \"trust\"\n\n[auth.users]\n\
                          app = \"\"\n\n# the first\n[pools.app]\nhost = \"h\" # there\nsize = 3\n";

    #[test]
    fn a_text_is_divided_into_both_parts() {
        let node = node_part(NODE).unwrap();
        assert!(node.contains("# of the node") && node.contains("workers = 4") && node.contains("port = 2"), "{node}");
        assert!(!node.contains("mode") && !node.contains("pools"), "{node}");
        let shared = shared_part(SHARED).unwrap();
        assert_eq!(shared, SHARED.replace("workers = 9\n", ""));
        assert_eq!(shared_part("[general]\nio = \"epoll\"\n[log]\nfile = \"x\"\n").unwrap(), "");
        assert_eq!(shared_sections(NODE, false), ["[listen]", "general.workers", "[cluster]", "[web]"]);
        assert_eq!(shared_sections(SHARED, true), ["[general]", "[auth]", "[pools]"]);
    }

    #[test]
    fn a_node_runs_its_own_part_and_the_shared_one() {
        let merged = merge(NODE, SHARED).unwrap();
        assert_eq!(node_part(&merged).unwrap().matches("workers").count(), 1);
        for there in ["workers = 4", "mode = \"transaction\"", "[pools.app]", "port = 1", "# the first"] {
            assert!(merged.contains(there), "{there} in {merged}");
        }
        assert!(!merged.contains("old") && !merged.contains("workers = 9"), "{merged}");
        let read = |_: &std::path::Path| Ok(merged.clone());
        let config = crate::load(std::path::Path::new("weir.toml"), &read, &|_| None).unwrap();
        assert_eq!((config.pools.len(), config.listen.port), (1, 1));
        // A part that is merged again stays as it is.
        assert_eq!(merge(&merged, &merged), Some(merged));
        assert_eq!(merge("[listen", SHARED), None);
    }

    #[test]
    fn the_sections_of_a_cluster_can_be_written_in_any_form() {
        let merged =
            merge("listen.port = 7\ngeneral = { io = \"epoll\" }\n", "pools.app = { host = \"h\" }\n").unwrap();
        let document = parse(&merged).unwrap();
        assert_eq!(document["pools"]["app"]["host"].as_str(), Some("h"));
        assert_eq!(document["general"]["io"].as_str(), Some("epoll"));
        assert_eq!(document["listen"]["port"].as_integer(), Some(7));
    }

    #[test]
    fn a_secret_in_the_clear_is_found_and_a_reference_is_none() {
        let find = |text: &str| find_plain_secret(text).map(|(key, _)| key);
        assert_eq!(find("[pools.app]\nhost = \"h\"\npassword = \"x\"\n").as_deref(), Some("pools.app.password"));
        assert_eq!(find("pools.app = { password = \"x\" }\n").as_deref(), Some("pools.app.password"));
        assert_eq!(find("[auth.users]\nann = \"x\"\n").as_deref(), Some("auth.users.ann"));
        let md5 = format!("[auth.users]\nann = \"md5{}\"\n", "0".repeat(32));
        assert_eq!(find(&md5).as_deref(), Some("auth.users.ann"));
        let verifier = "SCRAM-SHA-256$4096:QDHl3c07x6y3N/posdGPvg==$I42cKpiCuaxHmtlKw21M9Q7UxTQBycy1fRXhfW72rcs=:\
                        Iur4fXbK3kYk+0oyBTTCmjHHyfRJzkFLQVQvPFWXpqs=";
        let users = format!("[auth.users]\nann = \"{verifier}\"\nbob = \"\"\n");
        assert_eq!(find(&users), None, "{users}");
        assert_eq!(find("[pools.app]\npassword_file = \"x\"\npassword_env = \"Y\"\n"), None);
        assert_eq!(find("[pools.app]\npassword = \"enc:v1:AA==\"\n[auth.users]\nann = \"enc:v1:AA==\"\n"), None);
    }

    #[test]
    fn programs_and_references_are_of_a_nodes_own_file() {
        let find = |text: &str| find_of_node(text).map(|(key, _)| key);
        let key = Some("pools.app.password_command".to_owned());
        assert_eq!(find("[pools.app]\npassword_command = [\"sh\"]\n"), key);
        assert_eq!(find("pools = { app = { password_command = [] } }\n"), key);
        let key = Some("pools.app.password_source".to_owned());
        assert_eq!(find("[pools.app]\npassword_source = [\"google\"]\n"), key);
        assert_eq!(find("[pools.app]\npassword_file = \"x\"\npassword = \"env:X\"\n"), None);
        assert_eq!(find("[pools.app]\nhost = \"env:X\"\n").as_deref(), Some("pools.app.host"));
        assert_eq!(find("general = { admin_users = \"file:/etc/passwd\" }\n").as_deref(), Some("general.admin_users"));
    }

    #[test]
    fn secrets_are_replaced_at_their_places_and_all_else_stays() {
        let text = "[auth.users]\nann = \"x\"   # hers\nbob = \"\"\neve = \"enc:v1:AA==\"\n\n[pools]\napp = { password = 'y', host = \"h\" }\n";
        let mut seen = Vec::new();
        let replaced = replace_secrets(text, &mut |path, secret| {
            seen.push(format!("{}={secret}", path.join("/")));
            Ok::<_, ()>(Some(format!("{secret}2")))
        });
        assert_eq!(seen, ["auth/users/ann=x", "auth/users/eve=enc:v1:AA==", "pools/app/password=y"]);
        let expected = text.replace("\"x\"", "\"x2\"").replace("AA==", "AA==2").replace("'y'", "\"y2\"");
        assert_eq!(replaced, Ok(Some(expected)));
        assert_eq!(replace_secrets(text, &mut |_, _| Ok::<_, ()>(None)), Ok(Some(text.to_owned())));
        assert_eq!(replace_secrets(text, &mut |_, _| Err("no key")), Err("no key"));
        assert_eq!(replace_secrets("[x", &mut |_, _| Err("no key")), Ok(None));
    }

    #[test]
    fn each_secret_setting_is_a_nodes_own_or_looked_for() {
        for setting in settings::all().filter(|setting| setting.is_shared()) {
            assert!(!setting.is_concealed(), "{} may hold a secret, and is shared", setting.key());
        }
    }
}
