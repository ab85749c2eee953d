//! Checks of the structure: which crate may depend on which, no circles of imports between files, names that crates
//! without I/O must not use, no unsafe code, the length of files. The map in ARCHITECTURE.md has the arrows and the
//! groups of crates; this file enforces them. It reads `cargo metadata` and the sources as text. A crate that is not in
//! the map is an error too: a new crate begins with the decision of what it may depend on.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

mod imports;
mod public_types;

use imports::{Sources, circles, imports, methods_of, shown, with_calls};

/// The groups of the map: what holds for the crates below such a line of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Group {
    /// `config` is one of them: its callers read the files.
    WithoutIo,
    /// They may be unsafe, and must say why at each place: they speak to the kernel, and to libraries of C.
    Unsafe,
    WithIo,
    /// Tests, tools, and programs of their own.
    NotPooler,
}

impl Group {
    const TITLES: [(Group, &str); 4] = [
        (Group::WithoutIo, "without I/O"),
        (Group::Unsafe, "unsafe, behind a safe interface"),
        (Group::WithIo, "with I/O"),
        (Group::NotPooler, "not in the pooler"),
    ];
}

/// Libraries that do I/O, which the crates without I/O must not depend on.
const IO_LIBRARIES: &[&str] = &["io-uring", "mio", "nix", "signal-hook", "socket2", "tokio", "hyper", "axum"];

/// Exceptions from [`FORBIDDEN`], with their reasons.
const ALLOWED: &[(&str, &str, &str)] = &[
    ("crates/session/src/budget.rs", "Mutex", "workers find the account of a pool; taken when a pool is made"),
    (
        "crates/session/src/drawn_values.rs",
        "Mutex",
        "all workers learn which applications of a pool ask for sequences' values; taken when one does, and at its clients' first link",
    ),
    (
        "crates/session/src/statements.rs",
        "Mutex",
        "a worker's own table, of which a statement takes itself out when it is dropped",
    ),
];

/// What the crates without I/O must not use: files, sockets, threads, clocks, chance and the terminal, and locks,
/// which only several threads need. They get all of it as inputs.
const FORBIDDEN: &[&str] = &[
    "std::fs",
    "std::thread",
    "std::process",
    "std::env",
    "std::os",
    "std::time::Instant",
    "Instant",
    "SystemTime",
    "TcpStream",
    "TcpListener",
    "UdpSocket",
    "UnixStream",
    "UnixListener",
    "ToSocketAddrs",
    "stdin",
    "stdout",
    "stderr",
    "println",
    "eprintln",
    "OsRng",
    "getrandom",
    "Mutex",
    "RwLock",
    "Condvar",
    "mpsc",
    // One module of std a line, so that this check finds each.
    "std::{",
];

/// Lines of a file beyond which a warning is printed, and beyond which the check fails.
const LONG_FILE: usize = 600;
const TOO_LONG_FILE: usize = 1000;

struct Crate {
    /// Without the prefix `weir-`.
    name: String,
    folder: PathBuf,
    /// Its row of the map; none if it has none.
    row: Option<Row>,
    /// Names of all direct dependencies, those for tests and build scripts included.
    depends_on: BTreeSet<String>,
}

/// A row of the map.
#[derive(Clone)]
struct Row {
    folder: PathBuf,
    group: Group,
    /// The crates of the workspace that it depends on, in tests too, and no others.
    may_know: BTreeSet<String>,
}

#[test]
fn every_arrow_between_crates_is_drawn_in_the_design() {
    let crates = crates();
    let gone = map().into_iter().filter(|row| !crates.iter().any(|c| c.folder == row.folder));
    let mut wrong: Vec<_> =
        gone.map(|row| format!("{} is in the map, but is no crate", row.folder.display())).collect();
    for Crate { name, depends_on, row, .. } in crates {
        let Some(Row { may_know, .. }) = row else {
            wrong.push(format!("{name} is not in the map of ARCHITECTURE.md: decide what it may know"));
            continue;
        };
        let knows: BTreeSet<String> = depends_on.iter().filter_map(|dependency| ours(dependency)).collect();
        wrong.extend(knows.difference(&may_know).map(|known| format!("{name} must not know {known}")));
        wrong.extend(may_know.difference(&knows).map(|known| format!("{name} does not depend on {known}")));
    }
    assert!(wrong.is_empty(), "the map in ARCHITECTURE.md says otherwise:\n{}", wrong.join("\n"));
}

#[test]
fn arrows_never_run_in_a_circle() {
    // Removing crates that depend on no remaining crate must leave none.
    let mut left = crates();
    while !left.is_empty() {
        let names: Vec<String> = left.iter().map(|c| c.name.clone()).collect();
        left.retain(|c| c.depends_on.iter().filter_map(|known| ours(known)).any(|known| names.contains(&known)));
        assert!(left.len() < names.len(), "a circle among {names:?}");
    }
}

#[test]
fn no_files_of_a_crate_depend_on_each_other_in_a_circle() {
    let mut wrong = Vec::new();
    for Crate { name, folder, .. } in crates().iter().filter(|c| c.is_pooler()) {
        let sources = sources(&folder.join("src"));
        let mut imports = imports(&sources);
        wrong.extend(circles(&imports).iter().map(|circle| format!("{name}: {}", shown(&imports, circle))));
        with_calls(&sources, &mut imports);
        wrong.extend(circles(&imports).iter().map(|circle| format!("{name}: {}", shown(&imports, circle))));
    }
    assert!(
        wrong.is_empty(),
        "files that import each other, or call each other's methods of one type:\n{}",
        wrong.join("\n")
    );
}

/// The engine's rows: where each is defined, and the folder that alone may change it.
const ROWS: &[(&str, &str, &str)] = &[
    ("client/slot.rs", "ClientSlot", "client/"),
    ("server/slot.rs", "ServerSlot", "server/"),
    ("pools/mod.rs", "PoolSlot", "pools/"),
];

/// The most methods that `Engine` may have: it dispatches, and decides nothing itself.
const ENGINE_METHODS: usize = 29;

#[test]
fn the_engines_rows_change_in_their_room_only() {
    let engine = root().join("crates/engine/src");
    let mut wrong = Vec::new();
    for (file, row, room) in ROWS {
        let text = read(&engine.join(file));
        let body = text.split(&format!("struct {row} {{")).nth(1).unwrap_or_else(|| panic!("{file} has no {row}"));
        let fields = body.split("\n}").next().unwrap_or_default().lines().map(str::trim);
        let public: Vec<&str> = fields.filter_map(|line| line.strip_prefix("pub(crate) ")?.split(':').next()).collect();
        let changes = |line: &str, field: &&&str| {
            let after = line.split(&format!(".{field} ")).skip(1).find(|after| {
                let operator = after.strip_prefix(['+', '-', '|']).unwrap_or(after);
                operator.starts_with("= ")
            });
            after.is_some() && (line.contains("slot.") || line.contains("get_mut("))
        };
        for file in product_files(&engine).iter().filter(|file| !file.starts_with(engine.join(room))) {
            for (number, line) in code_lines(&read(file)) {
                let changed = public.iter().filter(|field| changes(&line, field));
                wrong.extend(changed.map(|field| format!("{}:{number}: {row}.{field}", file.display())));
            }
        }
    }
    assert!(wrong.is_empty(), "rows that are changed outside of their room:\n{}", wrong.join("\n"));
}

#[test]
fn the_engine_itself_only_dispatches() {
    let sources = sources(&root().join("crates/engine/src"));
    let methods = methods_of("Engine", &sources);
    assert!(methods.len() <= ENGINE_METHODS, "Engine has {} methods: {methods:?}", methods.len());
}

#[test]
fn crates_without_io_depend_on_no_library_that_does_any() {
    for Crate { name, depends_on, .. } in crates().iter().filter(|c| c.is_in(Group::WithoutIo)) {
        let found: Vec<_> = IO_LIBRARIES.iter().filter(|library| depends_on.contains(**library)).collect();
        assert!(found.is_empty(), "{name} has no I/O, but depends on {found:?}");
    }
}

#[test]
fn crates_without_io_name_no_file_socket_thread_clock_or_lock() {
    let mut wrong = Vec::new();
    for Crate { folder, .. } in crates().iter().filter(|c| c.is_in(Group::WithoutIo)) {
        for file in product_files(&folder.join("src")) {
            for (number, line) in code_lines(&read(&file)) {
                let allowed = |word: &str| ALLOWED.iter().any(|(at, what, _)| file.ends_with(at) && *what == word);
                let named = FORBIDDEN.iter().filter(|word| mentions(&line, word) && !allowed(word));
                wrong.extend(named.map(|word| format!("{}:{number}: {word}", file.display())));
            }
        }
    }
    assert!(wrong.is_empty(), "I/O where none may be:\n{}", wrong.join("\n"));
}

#[test]
fn every_crate_but_three_forbids_unsafe_code() {
    let workspace = read(&root().join("Cargo.toml"));
    assert!(workspace.contains("unsafe_code = \"forbid\""), "the workspace's lints must forbid unsafe code");
    let crates = crates();
    assert_eq!(crates.iter().filter(|c| c.is_in(Group::Unsafe)).count(), 3, "the crates that may be unsafe");
    for Crate { name, folder, row, .. } in crates {
        let manifest = read(&folder.join("Cargo.toml"));
        if row.is_some_and(|row| row.group == Group::Unsafe) {
            assert!(manifest.contains("undocumented_unsafe_blocks = \"deny\""), "{name} must give its reasons");
            continue;
        }
        assert!(manifest.contains("[lints]\nworkspace = true"), "{name} must take the workspace's lints");
    }
}

#[test]
fn every_file_says_what_it_is_and_stays_readable() {
    let mut wrong = Vec::new();
    for Crate { folder, .. } in crates() {
        for file in rust_files(&folder) {
            let text = read(&file);
            let lines = text.lines().count();
            let name = file.strip_prefix(root()).unwrap_or(&file).display();
            if !text.starts_with("//!") {
                wrong.push(format!("{name}: does not open with what it owns (//!)"));
            }
            if lines > TOO_LONG_FILE {
                wrong.push(format!("{name}: {lines} lines; divide it"));
            } else if lines > LONG_FILE {
                println!("warning: {name} has {lines} lines; {LONG_FILE} are many");
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_check_itself_sees_what_it_should() {
    let text = "use std::fs::File;\n// std::fs in a comment\nlet instant = Instants;\n#[cfg(test)]\nmod tests {\n std::fs\n}\n";
    let lines = code_lines(text);
    let hits = |word: &str| lines.iter().filter(|(_, line)| mentions(line, word)).map(|(n, _)| *n).collect::<Vec<_>>();
    assert_eq!((hits("std::fs"), hits("Instant"), hits("Instants")), (vec![1], vec![], vec![3]));
}

#[test]
fn a_circle_is_found_through_re_exports_and_paths_and_nothing_else_is_one() {
    let sample = |files: &[(&str, &str)]| {
        let sources: Sources = files.iter().map(|(file, code)| ((*file).to_owned(), (*code).to_owned())).collect();
        let imports = imports(&sources);
        circles(&imports).iter().map(|circle| shown(&imports, circle)).collect::<Vec<_>>()
    };
    let root = ("", "mod a; mod b; mod b::c; pub use a::A; pub(crate) use b::{B, c::C as D};");
    assert_eq!(
        sample(&[root, ("a", "use crate::b::B;"), ("b", "fn f() { crate::A }"), ("b::c", "")]),
        ["2 files: a → b → a"]
    );
    assert_eq!(
        sample(&[root, ("a", "use crate::D;"), ("b", ""), ("b::c", "use super::super::{a::{self}};")]),
        ["2 files: a → b::c → a"]
    );
    assert_eq!(
        sample(&[root, ("a", ""), ("b", "fn f() { c::go() }"), ("b::c", "use super::B;")]),
        ["2 files: b → b::c → b"]
    );
    assert_eq!(sample(&[("", "use a::A; struct R;"), ("a", "use crate::R;")]), ["2 files: lib → a → lib"]);
    let text = ("a", "const T: &str = \"use crate::b::B;\"; const Q: char = '\"'; fn f() { std::mem::take(b) }");
    let bystander = ("b::c", "use crate::a::A; use super::B; pub use crate::b::B as E;");
    assert_eq!(sample(&[root, text, ("b", "use crate::a::A as X;"), bystander]), [""; 0]);
}

#[test]
fn a_circle_is_found_through_methods_of_one_type_in_several_files() {
    let found = |first: &str, second: &str| {
        let sources: Sources =
            [("a", first), ("b", second)].map(|(file, code)| (file.to_owned(), code.to_owned())).into();
        let mut imports = imports(&sources);
        with_calls(&sources, &mut imports);
        circles(&imports).len()
    };
    let there = "impl<I: Io> Engine<I> { fn go(&self) { self . come::<I>(1) } }";
    assert_eq!(found(there, "impl Engine { fn come(&self) { self.go() } }"), 1);
    assert_eq!(found(there, "impl Engine { fn come(&self) { other.go(); self.went() } }"), 0);
    assert_eq!(found(there, "impl fmt::Display for Other { fn come(&self) { self.go() } }"), 0);
    assert_eq!(found("impl Engine { fn go(&self) { self.stay() } fn stay(&self) {} }", ""), 0);
    let own = |text: &str| format!("struct Engine; {text}");
    assert_eq!(found(&own(there), &own("impl Engine { fn come(&self) { self.go() } }")), 0);
}

impl Crate {
    fn is_in(&self, group: Group) -> bool {
        self.row.as_ref().is_some_and(|row| row.group == group)
    }

    /// Whether it is a part of the pooler itself, in which no files may import each other in a circle.
    fn is_pooler(&self) -> bool {
        self.row.is_some() && !self.is_in(Group::NotPooler)
    }
}

/// The map of ARCHITECTURE.md: lines with the title of a group, and below each the rows of its crates.
fn map() -> Vec<Row> {
    let page = read(&root().join("ARCHITECTURE.md"));
    let section = page.split("\n## The map\n").nth(1).expect("ARCHITECTURE.md has a map");
    let section = section.split("\n## ").next().unwrap_or_default();
    let mut group = None;
    let mut rows = Vec::new();
    for line in section.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [folder, what, may_know] = cells[..] else { panic!("three cells: {line}") };
        if folder.is_empty() {
            let title = what.trim_matches('*');
            let known = Group::TITLES.into_iter().find(|(_, known)| *known == title);
            group = Some(known.unwrap_or_else(|| panic!("no group of crates: {line}")).0);
        } else if folder != "folder" {
            let names = may_know.split(',').map(|name| name.trim().trim_end_matches(" (tests)"));
            rows.push(Row {
                folder: root().join(folder.trim_matches('`')),
                group: group.unwrap_or_else(|| panic!("before any group: {line}")),
                may_know: names.filter(|name| *name != "—").map(str::to_owned).collect(),
            });
        }
    }
    rows
}

/// The crates of the workspace, from cargo, each with its row of the map.
fn crates() -> Vec<Crate> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo prints JSON");
    let packages = metadata["packages"].as_array().expect("there are packages");
    let rows = map();
    packages.iter().map(|package| crate_of(package, &rows)).collect()
}

fn crate_of(package: &Value, rows: &[Row]) -> Crate {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let dependencies = package["dependencies"].as_array().expect("a list of dependencies");
    let name = text(&package["name"]);
    let folder = Path::new(&text(&package["manifest_path"])).parent().expect("a folder").to_owned();
    Crate {
        name: ours(&name).unwrap_or(name),
        row: rows.iter().find(|row| row.folder == folder).cloned(),
        folder,
        depends_on: dependencies.iter().map(|dependency| text(&dependency["name"])).collect(),
    }
}

/// The short name of a crate of the workspace; none for other crates.
fn ours(package: &str) -> Option<String> {
    if package == "weir" { Some(package.to_owned()) } else { package.strip_prefix("weir-").map(str::to_owned) }
}

fn root() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    folder.canonicalize().expect("the workspace's folder")
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        if entry.is_dir() && !entry.ends_with("target") {
            found.extend(rust_files(&entry));
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            found.push(entry);
        }
    }
    found.sort();
    found
}

/// The lines of a file with their numbers, without comments and without an inline `mod tests`, which is its last item.
fn code_lines(text: &str) -> Vec<(usize, String)> {
    let lines: Vec<&str> = text.lines().collect();
    let is_tests = |pair: &[&str]| pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod ") && pair[1].ends_with('{');
    let end = lines.windows(2).position(is_tests).unwrap_or(lines.len());
    let code = lines[..end].iter().map(|line| line.split("//").next().unwrap_or_default().to_owned());
    (1..).zip(code).collect()
}

/// The files of a folder that are not only for tests.
fn product_files(folder: &Path) -> Vec<PathBuf> {
    let files = rust_files(folder);
    let only_tests: BTreeSet<PathBuf> = files.iter().flat_map(|file| files_for_tests(file)).collect();
    let for_tests = |file: &Path| only_tests.iter().any(|m| file == m || file.starts_with(m.with_extension("")));
    files.into_iter().filter(|file| !for_tests(file)).collect()
}

/// The code of a crate's files, by module path.
fn sources(folder: &Path) -> Sources {
    let module = |file: &Path| {
        let path = file.strip_prefix(folder).expect("a file of the folder").with_extension("");
        let names: Vec<_> = path.iter().filter_map(|name| name.to_str()).collect();
        let names = names.strip_suffix(&["mod"]).unwrap_or(&names);
        if matches!(names, ["lib" | "main"]) { String::new() } else { names.join("::") }
    };
    let code = |file: &Path| code_lines(&read(file)).into_iter().map(|(_, line)| line + "\n").collect();
    product_files(folder).iter().map(|file| (module(file), code(file))).collect()
}

/// The files that `file` declares as test modules; their own modules are in folders of the same name.
fn files_for_tests(file: &Path) -> Vec<PathBuf> {
    let text = read(file);
    let lines: Vec<&str> = text.lines().collect();
    let beside = file.parent().expect("a folder");
    let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let folder = if matches!(stem, "lib" | "main" | "mod") { beside.to_owned() } else { beside.join(stem) };
    let marked = lines.iter().enumerate().filter(|(_, line)| **line == "#[cfg(test)]").map(|(at, _)| at);
    let declared = marked.filter_map(|at| {
        let path = lines.get(at + 1).and_then(|line| line.strip_prefix("#[path = \""));
        if let Some(path) = path {
            return Some(beside.join(path.trim_end_matches("\"]")));
        }
        let name = lines.get(at + 1)?.strip_prefix("mod ")?.strip_suffix(';')?;
        Some(folder.join(format!("{name}.rs")))
    });
    declared.collect()
}

/// Whether `line` contains `word` as a whole word.
fn mentions(line: &str, word: &str) -> bool {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(part_of_word) && (word.ends_with('{') || !after.is_some_and(part_of_word))
    })
}
