//! The calls of a type's methods by its own methods in other files of a crate (`self.step()`), read from the sources as
//! text.
//!
//! Files that extend one type depend on each other by such calls as by imports, though they import nothing of each
//! other.

use std::collections::{BTreeMap, BTreeSet};

use super::{Imports, Sources, is_name, tokens};

/// What the `impl` blocks of a file contain: by type, the methods that are defined and those that are called on `self`.
#[derive(Default)]
struct Methods {
    /// The types that the file defines itself: those of another file with the same name are others.
    own: BTreeSet<String>,
    defined: BTreeMap<String, BTreeSet<String>>,
    called: BTreeMap<String, BTreeSet<String>>,
}

/// Adds the calls between files to their imports.
pub(crate) fn with_calls(sources: &Sources, imports: &mut Imports) {
    let methods: BTreeMap<&str, Methods> = sources.iter().map(|(file, code)| (file.as_str(), methods(code))).collect();
    for (file, own) in &methods {
        for (of_type, called) in &own.called {
            let is_other = |other: &Methods| own.own.contains(of_type) && other.own.contains(of_type);
            let elsewhere = methods.iter().filter(|(other, its)| other != &file && !is_other(its));
            let defines = |other: &(&&str, &Methods)| {
                other.1.defined.get(of_type).is_some_and(|defined| !defined.is_disjoint(called))
            };
            let to = elsewhere.filter(defines).map(|(other, _)| (*other).to_owned());
            imports.entry((*file).to_owned()).or_default().extend(to);
        }
    }
}

/// The methods of a type, in all files of a crate.
pub(crate) fn methods_of(of_type: &str, sources: &Sources) -> BTreeSet<String> {
    sources.values().flat_map(|code| methods(code).defined.remove(of_type).unwrap_or_default()).collect()
}

fn methods(code: &str) -> Methods {
    let tokens = tokens(code);
    let mut methods = Methods::default();
    for pair in tokens.windows(2).filter(|pair| matches!(pair[0].as_str(), "struct" | "enum")) {
        methods.own.insert(pair[1].clone());
    }
    let mut at = 0;
    while at < tokens.len() {
        at += 1;
        // Not `impl Trait` in a type.
        let is_item = at < 2 || matches!(tokens[at - 2].as_str(), "}" | ";" | "]" | "unsafe");
        if tokens[at - 1] != "impl" || !is_item {
            continue;
        }
        let Some(open) = tokens[at..].iter().position(|token| token == "{").map(|open| at + open) else { break };
        let of_type = implementing(&tokens[at..open]);
        let close = block_end(&tokens, open);
        let block = &tokens[open..close];
        for (index, token) in block.iter().enumerate() {
            if token == "fn" {
                let name = block.get(index + 1).cloned().unwrap_or_default();
                methods.defined.entry(of_type.clone()).or_default().insert(name);
            } else if token == "self" && block.get(index + 1).is_some_and(|token| token == ".") {
                let called = block.get(index + 2).filter(|name| is_name(name));
                let is_call = block.get(index + 3).is_some_and(|token| token == "(" || token == "::");
                if let Some(name) = called.filter(|_| is_call) {
                    methods.called.entry(of_type.clone()).or_default().insert(name.clone());
                }
            }
        }
        at = close;
    }
    methods
}

/// The type that an `impl` is for, by its last name: `impl<T> Trait for path::Type<T>` is for `Type`.
fn implementing(head: &[String]) -> String {
    let mut depth = 0;
    let mut name = String::new();
    for token in head {
        match token.as_str() {
            "<" => depth += 1,
            ">" => depth -= 1,
            "where" => break,
            "for" if depth == 0 => name.clear(),
            token if depth == 0 && is_name(&token.to_owned()) => name = token.to_owned(),
            _ => {}
        }
    }
    name
}

/// The index behind the block that opens at `open`.
fn block_end(tokens: &[String], open: usize) -> usize {
    let mut depth = 0;
    for (index, token) in tokens.iter().enumerate().skip(open) {
        match token.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return index + 1;
        }
    }
    tokens.len()
}
