//! The imports between the files of a crate, read from the sources as text, and the circles among them.
//!
//! A file imports another if its code names an item that the other defines, in a `use` or in a path, through any
//! number of re-exports. A re-export (`pub use`) by itself is no import. The caller removes tests and comments.

use std::collections::{BTreeMap, BTreeSet};

mod calls;

pub(crate) use calls::{methods_of, with_calls};

/// A crate's files with their code, by module path (`tables::pools`; the root is empty).
pub(crate) type Sources = BTreeMap<String, String>;

/// The imports of each file, by module path.
pub(crate) type Imports = BTreeMap<String, BTreeSet<String>>;

/// The imports of each file from the others.
pub(crate) fn imports(sources: &Sources) -> Imports {
    let named: BTreeMap<&str, Named> = sources.iter().map(|(file, code)| (file.as_str(), names(code))).collect();
    let of = |file: &str| {
        let found = named[file].used.iter().filter_map(|path| defining_file(&named, file, path, 0));
        found.filter(|other| other != file).collect()
    };
    sources.keys().map(|file| (file.clone(), of(file))).collect()
}

/// The groups of files that reach each other by imports.
pub(crate) fn circles(imports: &Imports) -> Vec<Vec<&str>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        imports.keys().map(|file| (file.as_str(), reachable(imports, file))).collect();
    let mut circles: Vec<Vec<&str>> = Vec::new();
    for (file, reaches) in &reached {
        let known = circles.iter().any(|circle| circle.contains(file));
        if reaches.contains(file) && !known {
            circles.push(reaches.iter().copied().filter(|other| reached[other].contains(file)).collect());
        }
    }
    circles
}

/// A circle as a line: `a → b → a`.
pub(crate) fn shown(imports: &Imports, circle: &[&str]) -> String {
    let mut way = vec![circle[0]];
    while way.len() == 1 || way[0] != way[way.len() - 1] {
        let last = way[way.len() - 1];
        let next: Vec<&str> = imports[last].iter().map(String::as_str).filter(|file| circle.contains(file)).collect();
        let unseen = next.iter().find(|file| !way.contains(file));
        match unseen.or_else(|| next.first()) {
            // A path that returns to one of its files is a circle from that file on.
            Some(file) if unseen.is_none() => {
                let start = way.iter().position(|seen| seen == file).expect("it was seen");
                way.drain(..start);
                way.push(file);
            }
            Some(file) => way.push(file),
            None => break,
        }
    }
    let name = |file: &&str| if file.is_empty() { "lib".to_owned() } else { (*file).to_owned() };
    let way: Vec<String> = way.iter().map(name).collect();
    format!("{} files: {}", circle.len(), way.join(" → "))
}

fn reachable<'a>(imports: &'a Imports, from: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&str> = imports[from].iter().map(String::as_str).collect();
    while let Some(file) = next.pop() {
        if reached.insert(file) {
            next.extend(imports[file].iter().map(String::as_str));
        }
    }
    reached
}

/// The paths in a file's code, each as its segments.
#[derive(Default)]
struct Named {
    used: Vec<Vec<String>>,
    /// Re-exported paths, by their new names.
    exported: BTreeMap<String, Vec<String>>,
}

fn names(code: &str) -> Named {
    let tokens = tokens(code);
    let mut named = Named::default();
    let mut at = 0;
    while at < tokens.len() {
        if tokens[at] == "mod" {
            at += 2;
        } else if tokens[at] == "use" {
            let mut paths = Vec::new();
            let is_export = at > 0 && (tokens[at - 1] == "pub" || tokens[at - 1] == ")");
            at = use_tree(&tokens, at + 1, &[], &mut paths);
            match is_export {
                true => named.exported.extend(paths),
                false => named.used.extend(paths.into_iter().map(|(_, path)| path)),
            }
        } else if is_name(&tokens[at]) {
            let mut path = vec![tokens[at].clone()];
            while tokens.get(at + 1).is_some_and(|token| token == "::") && tokens.get(at + 2).is_some_and(is_name) {
                path.push(tokens[at + 2].clone());
                at += 2;
            }
            if path.len() > 1 {
                named.used.push(path);
            }
            at += 1;
        } else {
            at += 1;
        }
    }
    named
}

/// Reads one tree of a `use`: each path with its local name; returns the index behind it.
fn use_tree(tokens: &[String], mut at: usize, before: &[String], paths: &mut Vec<(String, Vec<String>)>) -> usize {
    let mut path = before.to_vec();
    while let Some(token) = tokens.get(at) {
        at += 1;
        match token.as_str() {
            "::" => {}
            "{" => {
                while tokens.get(at).is_some_and(|token| token != "}") {
                    at = use_tree(tokens, at, &path, paths);
                    at += usize::from(tokens.get(at).is_some_and(|token| token == ","));
                }
                return at + 1;
            }
            "as" => {
                let name = tokens.get(at).cloned().unwrap_or_default();
                paths.push((name, path));
                return at + 1;
            }
            name if is_name(&name.to_owned()) || name == "*" => path.push(name.to_owned()),
            _ => {
                at -= 1;
                break;
            }
        }
    }
    paths.push((path.last().cloned().unwrap_or_default(), path));
    at
}

/// The file that defines `path` as named in `file`; none for items of other crates.
fn defining_file(named: &BTreeMap<&str, Named>, file: &str, path: &[String], depth: usize) -> Option<String> {
    let child =
        |module: &str, name: &str| if module.is_empty() { name.to_owned() } else { format!("{module}::{name}") };
    let parent = |module: &str| module.rsplit_once("::").map_or(String::new(), |(parent, _)| parent.to_owned());
    let first = path.first()?;
    let (mut module, mut rest) = match first.as_str() {
        "crate" => (String::new(), &path[1..]),
        "self" => (file.to_owned(), &path[1..]),
        "super" => (parent(file), &path[1..]),
        name if named.contains_key(child(file, name).as_str()) => (file.to_owned(), path),
        name if depth > 0 && named[file].exported.contains_key(name) => (file.to_owned(), path),
        _ => return None,
    };
    while let Some((name, after)) = rest.split_first() {
        if name == "super" {
            module = parent(&module);
        } else if named.contains_key(child(&module, name).as_str()) {
            module = child(&module, name);
        } else if let Some(target) = named[module.as_str()].exported.get(name).filter(|_| depth < 8) {
            let through = defining_file(named, &module, target, depth + 1);
            return through.or(Some(module));
        } else {
            break;
        }
        rest = after;
    }
    Some(module)
}

fn is_name(token: &String) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_') && token != "as"
}

/// Names, `::` and single signs; without quoted text.
fn tokens(code: &str) -> Vec<String> {
    let chars: Vec<char> = code.chars().collect();
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        let c = chars[at];
        let of_name = |c: &&char| c.is_alphanumeric() || **c == '_';
        if c == '"' {
            at = end_of_text(&chars, at);
        } else if c == '\'' && chars.get(at + 1) == Some(&'\\') {
            at += 4;
        } else if c == '\'' && chars.get(at + 2) == Some(&'\'') {
            at += 3;
        } else if c.is_alphanumeric() || c == '_' {
            let name: String = chars[at..].iter().take_while(of_name).collect();
            at += name.chars().count();
            tokens.push(name);
        } else if c == ':' && chars.get(at + 1) == Some(&':') {
            tokens.push("::".to_owned());
            at += 2;
        } else {
            if !c.is_whitespace() {
                tokens.push(c.to_string());
            }
            at += 1;
        }
    }
    tokens
}

/// The end of the quoted text that begins at `at`: a raw one (`r#"…"#`) ends with as many signs as it began with.
fn end_of_text(chars: &[char], at: usize) -> usize {
    let signs = chars[..at].iter().rev().take_while(|c| **c == '#').count();
    let is_raw = chars[..at - signs].last() == Some(&'r');
    let mut end = at + 1;
    while end < chars.len() {
        match chars[end] {
            '\\' if !is_raw => end += 1,
            '"' if !is_raw || chars[end + 1..].iter().take(signs).filter(|c| **c == '#').count() == signs => {
                return end + 1;
            }
            _ => {}
        }
        end += 1;
    }
    end
}
