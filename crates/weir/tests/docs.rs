//! Pages are compared with what they describe: dependencies with the manifests, refusals with their source, paths and
//! links with the tree, names in ARCHITECTURE.md with the sources, and the list of the site's pages with the pages.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Folders of the repository: a path in backticks that begins with one of them must exist.
const FOLDERS: &[&str] =
    &["crates/", "docs/", "sim/", "tests/", "bench/", "demo/", "lab/", "fuzz/", "scripts/", ".ci/"];

#[test]
fn every_direct_dependency_has_a_line_of_reason_and_no_line_is_left_over() {
    let page = read("docs/dependencies.md");
    let explained: BTreeSet<String> = rows(&page).into_iter().map(|cells| code(&cells[0])).collect();
    let wanted = external_dependencies();
    let missing: Vec<_> = wanted.difference(&explained).collect();
    let left_over: Vec<_> = explained.difference(&wanted).collect();
    assert!(missing.is_empty(), "docs/dependencies.md lacks a line for {missing:?}");
    assert!(left_over.is_empty(), "docs/dependencies.md explains what nobody depends on: {left_over:?}");
    let short: Vec<_> = rows(&page).into_iter().filter(|cells| cells[1].len() < 20).collect();
    assert!(short.is_empty(), "a reason is a sentence: {short:?}");
}

#[test]
fn what_is_written_here_although_a_library_exists_has_its_size() {
    let page = read("docs/dependencies.md");
    let section = page.split("\n## Written here").nth(1).expect("the section");
    let section = section.split("\n## ").next().unwrap_or_default();
    let mut compared = 0;
    for stated in section.split(" (`").skip(1) {
        let Some((path, size)) = stated.split_once("`, ") else { continue };
        let Some((size, _)) = size.split_once(" lines)") else { continue };
        let stated: usize = size.replace(',', "").parse().unwrap_or_else(|_| panic!("{path}: {size} lines"));
        let lines = lines_without_tests(&root().join(path));
        assert!(lines.abs_diff(stated) <= lines / 10, "docs/dependencies.md: {path} has {lines} lines, not {stated}");
        compared += 1;
    }
    assert!(compared >= 12, "the section was not understood: {compared} sizes");
}

/// The lines of a source, or of all below a folder, without an inline `mod tests`, which is the last item, and without
/// files of tests.
fn lines_without_tests(path: &Path) -> usize {
    if path.is_dir() {
        let entries = fs::read_dir(path).expect("a folder").map(|entry| entry.expect("an entry").path());
        let is_tests = |path: &Path| path.to_str().is_some_and(|path| path.ends_with("tests.rs"));
        return entries.filter(|path| !is_tests(path)).map(|path| lines_without_tests(&path)).sum();
    }
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let lines: Vec<&str> = text.lines().collect();
    let is_tests = |pair: &[&str]| pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod ") && pair[1].ends_with('{');
    lines.windows(2).position(is_tests).unwrap_or(lines.len())
}

#[test]
fn every_refusal_stands_on_its_page_with_its_text_and_its_sqlstate() {
    let source = read("crates/session/src/refusal.rs");
    let sqlstates = arms(body(&source, "pub fn sqlstate"));
    let texts = arms(body(&source, "impl fmt::Display for Refusal"));
    let variants = variants(&source);
    assert!(variants.len() > 20, "the enum was not understood: {variants:?}");
    let of = |arms: &[(String, String)], variant: &str| {
        let found = arms.iter().find(|(name, _)| name == variant).map(|(_, value)| value.clone());
        found.unwrap_or_else(|| panic!("{variant} was not found in the source"))
    };
    let defined: BTreeSet<_> = variants.iter().map(|v| (of(&texts, v), of(&sqlstates, v))).collect();
    let page = read("docs/errors.md");
    let refusals = rows(&page).into_iter().filter(|cells| cells.len() == 5).collect::<Vec<_>>();
    let written: BTreeSet<_> = refusals.iter().map(|cells| (code(&cells[0]), code(&cells[1]))).collect();
    let missing: Vec<_> = defined.difference(&written).collect();
    let left_over: Vec<_> = written.difference(&defined).collect();
    assert!(missing.is_empty() && left_over.is_empty(), "docs/errors.md lacks {missing:?} and tells of {left_over:?}");
    for cells in refusals {
        assert!(cells.iter().all(|cell| !cell.is_empty()), "an empty cell: {cells:?}");
        assert!(["yes", "no", "ask", "yes, later"].contains(&cells[4].as_str()), "is a retry safe? {cells:?}");
    }
}

/// The oldest Rust is `rust-version` in Cargo.toml: clippy refuses newer functions of the library, and cargo chooses
/// dependencies that need no newer one.
#[test]
fn the_readme_names_the_oldest_rust_that_cargo_takes_and_the_toolchain_of_releases_is_no_older() {
    let value = |text: &str, key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_else(|| panic!("there is no {key}"));
        line.trim_matches([' ', '=', '"']).to_owned()
    };
    let oldest = value(&read("Cargo.toml"), "rust-version");
    assert!(read("README.md").contains(&format!("Rust {oldest} or newer")), "the README does not name Rust {oldest}");
    let numbers = |version: &str| version.split('.').map(|part| part.parse().expect("a number")).collect::<Vec<u32>>();
    let releases = value(&read("rust-toolchain.toml"), "channel");
    assert!(numbers(&releases) >= numbers(&oldest), "{releases} is older than {oldest}");
    assert!(read(".gitlab-ci.yml").contains(&format!("rust:{}-", releases.trim_end_matches(".0"))));
    assert!(read("Cargo.toml").contains("resolver = \"3\""), "cargo chooses dependencies by rust-version");
}

#[test]
fn every_limit_on_statements_stands_on_the_page_of_errors() {
    let page = read("docs/errors.md");
    let folder = fs::read_dir(root().join("crates/session/src")).expect("a folder");
    let files = folder.map(|entry| entry.expect("an entry").path()).filter(|path| path.is_file());
    let source: String = files.map(|file| fs::read_to_string(file).expect("a source")).collect();
    let limits: Vec<&str> = source.split("StatementLimit(\"").skip(1).filter_map(|s| s.split('"').next()).collect();
    assert!(!limits.is_empty());
    let missing: Vec<_> = limits.iter().filter(|limit| !page.contains(**limit)).collect();
    assert!(missing.is_empty(), "docs/errors.md lacks {missing:?}");
}

#[test]
fn every_bound_on_the_page_of_limits_has_a_name_that_there_is() {
    let page = read("docs/limits.md");
    let settings = read("docs/settings.md");
    let mut bounds = 0;
    for line in page.lines().filter(|line| line.starts_with("| ") && line.ends_with('|')) {
        let cells: Vec<&str> = line.trim_matches(['|', ' ']).split('|').map(str::trim).collect();
        if cells.len() != 5 || cells[0] == "what" {
            continue;
        }
        bounds += 1;
        assert!(cells.iter().all(|cell| !cell.is_empty()), "a cell is empty: {cells:?}");
        let names: Vec<&str> = cells[4].split('`').skip(1).step_by(2).collect();
        match names[..] {
            [constant, file] => {
                let source = read(file);
                let declared = source.split(&format!("const {constant}: ")).nth(1);
                let declared = declared.unwrap_or_else(|| panic!("{file} has no {constant}"));
                if let Some(number) = declared.split_once(" = ").and_then(|(_, rest)| value(rest.split(';').next()?)) {
                    let is_named = spellings(number).iter().any(|spelling| line.contains(spelling));
                    assert!(is_named, "{constant} is {number} in {file}, and the page has: {line}");
                }
            }
            [setting] => assert!(settings.contains(&format!("| `{setting}` |")), "there is no setting {setting}"),
            _ => panic!("a bound is named by a setting, or by a constant and its file: {cells:?}"),
        }
    }
    assert!(bounds > 30, "the page was not understood: {bounds} bounds");
}

/// The number that a constant's expression is, if it has no names.
fn value(expression: &str) -> Option<u64> {
    let number = |text: &str| text.trim().replace('_', "").parse::<u64>().ok();
    if let Some((number_of, shift)) = expression.split_once("<<") {
        return Some(number(number_of)? << number(shift)?);
    }
    if let Some((one, other)) = expression.split_once('+') {
        return Some(number(one)? + number(other)?);
    }
    expression.split('*').map(number).product()
}

/// How a page may write a number.
fn spellings(number: u64) -> Vec<String> {
    let digits = number.to_string();
    let grouped: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|three| str::from_utf8(three).ok()).collect();
    let binary =
        [(10, "KiB"), (20, "MiB"), (20, "Mi ")].into_iter().filter(|(bits, _)| number.is_multiple_of(1 << bits));
    let mut all: Vec<String> = binary.map(|(bits, unit)| format!("{} {unit}", number >> bits)).collect();
    all.push(grouped.join(","));
    all.extend((number == 1).then(|| "one ".to_owned()));
    all
}

#[test]
fn every_error_of_the_console_stands_on_the_page_of_errors() {
    let source = read("crates/admin/src/error.rs");
    // A text may be broken over two lines of the page.
    let page = read("docs/errors.md").split_whitespace().collect::<Vec<_>>().join(" ");
    let texts = literals(body(&source, "impl fmt::Display for CommandError"));
    assert!(texts.len() > 10, "{texts:?}");
    // `wait` is the verb of one text and no text of its own.
    let missing: Vec<_> =
        texts.iter().filter(|text| **text != "wait" && !page.contains(&format!("`{text}`"))).collect();
    assert!(missing.is_empty(), "docs/errors.md lacks the console's {missing:?}");
}

#[test]
fn every_kind_of_fault_and_every_fuzz_target_stands_on_its_pages() {
    let source = read("crates/admin/src/fault.rs");
    let list = source.split("pub const FAULT_KINDS").nth(1).and_then(|rest| rest.split("];").next()).expect("a list");
    let kinds = literals(list);
    assert!(kinds.len() > 5, "{kinds:?}");
    let row = |page: &str, start: &str| {
        let text = read(page);
        text.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{page} has no {start}")).to_owned()
    };
    let console = read("docs/console.md");
    let faults = console.split("### SHOW FAULTS").nth(1).expect("a table of faults").to_owned();
    let of_console = faults.lines().find(|line| line.starts_with("| `kind`")).expect("a row").to_owned();
    for place in [row("docs/api.md", "| `weir_faults`"), of_console] {
        let missing: Vec<_> = kinds.iter().filter(|kind| !place.contains(&format!("`{kind}`"))).collect();
        assert!(missing.is_empty(), "{place} lacks {missing:?}");
    }
    let alerts = read("docs/alerts.md");
    let missing: Vec<_> = kinds.iter().filter(|kind| !alerts.contains(&format!("| `{kind}` |"))).collect();
    assert!(missing.is_empty(), "docs/alerts.md lacks {missing:?}");
    let proof = read("docs/proof.md");
    let targets = fs::read_dir(root().join("fuzz/fuzz_targets")).expect("a folder");
    let targets = targets.map(|entry| entry.expect("an entry").path());
    let names = targets.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()));
    let missing: Vec<_> = names.filter(|name| !proof.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "docs/proof.md lacks the fuzz targets {missing:?}");
}

#[test]
fn the_table_of_behaviours_names_each_of_their_tests() {
    let page = read("docs/pgbouncer.md");
    let numbered = page.lines().filter_map(|line| {
        let cells: Vec<&str> = line.strip_prefix("| ")?.trim_end_matches(['|', ' ']).split(" | ").collect();
        Some((cells.first()?.parse::<u32>().ok()?, *cells.get(2)?))
    });
    let mut written = BTreeSet::new();
    let mut numbers = Vec::new();
    for (number, tests) in numbered {
        numbers.push(number);
        written.extend(tests.split('`').skip(1).step_by(2).map(|name| format!("behaviour_{number:02}_{name}")));
    }
    assert_eq!(numbers, (1..=20).collect::<Vec<_>>());
    let mut tests = BTreeSet::new();
    for entry in fs::read_dir(root().join("tests/postgres/behaviours")).expect("a folder") {
        let source = fs::read_to_string(entry.expect("an entry").path()).expect("a source");
        let found = source.lines().filter_map(|line| line.strip_prefix("fn ")?.split('(').next().map(str::to_owned));
        tests.extend(found.filter(|name| name.starts_with("behaviour_")));
    }
    let missing: Vec<_> = tests.difference(&written).collect();
    let left_over: Vec<_> = written.difference(&tests).collect();
    assert!(missing.is_empty() && left_over.is_empty(), "the page lacks {missing:?} and names {left_over:?}");
}

#[test]
fn the_table_of_incidents_names_every_test_of_them_and_leaves_none_without_a_result() {
    let page = read("docs/incidents.md");
    let mut written = BTreeSet::new();
    let mut rows = 0;
    for line in page.lines() {
        let cells: Vec<&str> = line.trim_matches(['|', ' ']).split(" | ").map(str::trim).collect();
        let [what, place, tests, result] = cells[..] else { continue };
        if what == "what happened" {
            continue;
        }
        rows += 1;
        let named: Vec<_> = tests.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        assert!(!what.is_empty() && !place.is_empty() && !named.is_empty(), "a cell is empty: {line}");
        // A figure, or that it is open and with what it comes.
        let defined = result.starts_with("open: comes with ") || result.chars().any(|c| c.is_ascii_digit());
        assert!(defined, "no figure came out: {line}");
        written.extend(named);
    }
    assert_eq!(rows, 24, "an incident is missing, or one too many");
    let mut tests = BTreeSet::new();
    for entry in fs::read_dir(root().join("tests/incidents")).expect("a folder") {
        let source = fs::read_to_string(entry.expect("an entry").path()).expect("a source");
        let mut lines = source.lines();
        while lines.any(|line| line.trim() == "#[test]") {
            let name = lines.next().and_then(|line| line.trim().strip_prefix("fn ")?.split('(').next());
            tests.insert(name.expect("a test is a function").to_owned());
        }
    }
    let missing: Vec<_> = tests.difference(&written).collect();
    let left_over: Vec<_> = written.difference(&tests).collect();
    assert!(missing.is_empty() && left_over.is_empty(), "the page lacks {missing:?} and names {left_over:?}");
}

#[test]
fn paths_and_links_on_every_page_lead_somewhere() {
    let mut wrong = Vec::new();
    for page in pages().into_iter().chain(translations()) {
        let text = fs::read_to_string(&page).expect("a page");
        let broken = links(&text).into_iter().filter_map(|link| Some(format!("{link}: {}", fault_of(&page, link)?)));
        wrong.extend(broken.map(|fault| format!("{}: {fault}", page.display())));
        let paths = text.lines().flat_map(|line| line.split('`').skip(1).step_by(2)).filter(|code| {
            FOLDERS.iter().any(|folder| code.starts_with(folder)) && !code.contains(['*', ' ', '<', '…', '{'])
        });
        wrong.extend(paths.filter(|path| !root().join(path).exists()).map(|p| format!("{}: {p}", page.display())));
    }
    assert!(wrong.is_empty(), "these lead nowhere:\n{}", wrong.join("\n"));
}

/// The most bytes of ARCHITECTURE.md: it is read first, and the rest is at the head of each file.
const ARCHITECTURE_BYTES: usize = 12 * 1024;

/// A blank line within a table ends it, and the rows behind it are shown as text.
#[test]
fn every_table_of_a_page_has_a_head_and_rows_of_its_width() {
    let width = |line: &str| line.replace("\\|", "").matches('|').count();
    for page in pages() {
        let text = fs::read_to_string(&page).expect("a page");
        let (mut is_code, mut before) = (false, "");
        let lines: Vec<&str> = text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            is_code ^= line.starts_with("```");
            if !is_code && line.starts_with('|') {
                let place = format!("{}:{}", page.display(), at + 1);
                let head = lines
                    .get(at + 1)
                    .is_some_and(|next| next.starts_with('|') && !next.contains(char::is_alphanumeric));
                assert!(before.starts_with('|') || head, "{place}: a row without a head");
                assert!(!before.starts_with('|') || width(line) == width(before), "{place}: another number of cells");
            }
            before = line;
        }
    }
}

#[test]
fn the_page_of_the_architecture_is_short_and_names_what_there_is() {
    let page = read("ARCHITECTURE.md");
    assert!(page.len() <= ARCHITECTURE_BYTES, "{} bytes: tell the rest at the head of its crate or file", page.len());
    let words = words_of_sources();
    // A file is named by its path, or by its name beside others of the engine.
    let folders = ["", "crates/engine/src/link", "crates/engine/src/client_login"].map(|folder| root().join(folder));
    let there_is = |name: &str| {
        if name.contains('/') || name.ends_with(".rs") {
            return folders.iter().any(|folder| folder.join(name).exists());
        }
        root().join("crates").join(name).exists() || name.split("::").all(|word| words.contains(word))
    };
    let prose = page.split("```").step_by(2);
    let names: Vec<&str> = prose.flat_map(|text| text.split('`').skip(1).step_by(2)).collect();
    assert!(names.len() > 60, "the page was not understood: {names:?}");
    let wrong: Vec<_> = names.into_iter().filter(|name| !name.contains([' ', '-']) && !there_is(name)).collect();
    assert!(wrong.is_empty(), "ARCHITECTURE.md names what there is not: {wrong:?}");
}

#[test]
fn the_page_of_the_architecture_has_all_of_the_port() {
    let page = read("ARCHITECTURE.md");
    let block = page.split("```").nth(1).expect("the port is a block");
    let (inputs, calls) = block.split_once("\nIo ").expect("the inputs, then the calls");
    let inputs = inputs.split("\nInput ").nth(1).expect("the inputs");
    let written = |text: &str| text.split_whitespace().map(str::to_owned).collect::<BTreeSet<_>>();
    let source = read("crates/engine/src/port.rs");
    let names = |item: &str, start: &str| {
        let lines = body(&source, item).lines().filter_map(|line| line.strip_prefix("    ")?.strip_prefix(start));
        let names = lines.filter_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_').next());
        names.filter(|name| !name.is_empty()).map(str::to_owned).collect::<BTreeSet<_>>()
    };
    assert_eq!(written(inputs), names("pub enum Input<'a>", ""));
    assert_eq!(written(calls), names("pub trait Io", "fn "));
}

/// The words of the sources of the crates and the simulator, without those of comments.
fn words_of_sources() -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    let mut folders = vec![root().join("crates"), root().join("sim")];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(path).expect("a source");
                let code = text.lines().filter_map(|line| line.split("//").next());
                let found = code.flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_'));
                words.extend(found.map(str::to_owned));
            }
        }
    }
    words
}

/// The targets of Markdown's links and pictures, and of the pictures that HTML names, outside of code.
fn links(text: &str) -> Vec<&str> {
    let paragraphs = text.split("```").step_by(2).flat_map(|prose| prose.split("\n\n"));
    let prose = paragraphs.flat_map(|paragraph| paragraph.split('`').step_by(2));
    let targets = prose.flat_map(|piece| {
        let starts = [("](", ')'), ("src=\"", '"'), ("srcset=\"", '"')];
        starts
            .into_iter()
            .flat_map(move |(start, end)| piece.split(start).skip(1).filter_map(move |s| s.split_once(end)))
    });
    targets.map(|(target, _)| target).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Why a link of a page would not work, on a forge or on the site. Links to other places are checked for their form
/// only.
fn fault_of(page: &Path, link: &str) -> Option<&'static str> {
    if let Some((scheme, rest)) = link.split_once("://") {
        let host = rest.split(['/', ':', '#', '?']).next().unwrap_or_default();
        let local = scheme == "http" && (host == "127.0.0.1" || host == "localhost");
        let formed = host.contains('.') && !link.contains(char::is_whitespace);
        return (!local && (scheme != "https" || !formed)).then_some("not the form of an https address");
    }
    let (target, anchor) = link.split_once('#').map_or((link, None), |(target, anchor)| (target, Some(anchor)));
    let there = if target.is_empty() { page.to_owned() } else { page.parent().expect("a folder").join(target) };
    if !there.is_file() {
        // The site has the files that pages link to, and no folders.
        return Some(if there.exists() { "a folder, where the site has files" } else { "there is no such file" });
    }
    let anchor = anchor?;
    let headings = fs::read_to_string(&there).unwrap_or_default();
    let found = headings.lines().filter(|line| line.starts_with('#')).any(|heading| slug(heading) == anchor);
    (!found).then_some("there is no such heading")
}

#[test]
fn every_page_is_in_the_summary_of_the_site_once_with_the_readme_first() {
    let summary = read("docs/SUMMARY.md");
    let targets = summary.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let docs = root().join("docs");
    let listed: Vec<PathBuf> = targets
        .map(|target| {
            docs.join(target).canonicalize().unwrap_or_else(|_| panic!("docs/SUMMARY.md: there is no {target}"))
        })
        .collect();
    assert_eq!(listed.first(), Some(&root().join("README.md")), "the site begins with the README");
    let mut seen = BTreeSet::new();
    let twice: Vec<_> = listed.iter().filter(|page| !seen.insert(*page)).collect();
    assert!(twice.is_empty(), "docs/SUMMARY.md lists these twice: {twice:?}");
    let all = pages().into_iter().chain(translations());
    let missing: Vec<_> = all.filter(|page| !seen.contains(page)).collect();
    assert!(missing.is_empty(), "docs/SUMMARY.md lacks {missing:?}");
    let parts: Vec<_> = summary.lines().filter_map(|line| line.strip_prefix("# ")).collect();
    assert_eq!(parts, ["Summary", "Tutorial", "How-to", "Reference", "Explanation", "The project"]);
}

#[test]
fn pictures_have_a_title_a_description_and_the_colours_of_both_themes() {
    for entry in fs::read_dir(root().join("docs/pictures")).expect("a folder") {
        let path = entry.expect("an entry").path();
        let size = fs::metadata(&path).expect("a file").len();
        assert!(size <= 150 * 1024, "{} has {size} bytes: reduce it to 150 KiB", path.display());
        if path.extension().is_some_and(|extension| extension == "svg") {
            let text = fs::read_to_string(&path).expect("a text");
            for part in ["<title", "<desc", "role=\"img\"", "prefers-color-scheme: dark", "viewBox"] {
                assert!(text.contains(part), "{} has no {part}", path.display());
            }
        }
    }
}

#[test]
fn articles_in_other_languages_have_the_sections_the_commands_and_the_readers_of_the_english_ones() {
    let sections = |text: &str| text.lines().filter(|line| line.starts_with("## ")).count();
    let commands = |text: &str| -> BTreeSet<String> {
        let lines = text.lines().filter(|line| line.starts_with("weir lab ") || line.starts_with("make "));
        lines.map(|line| line.split('#').next().unwrap_or_default().trim().to_owned()).collect()
    };
    for page in translations() {
        let text = fs::read_to_string(&page).expect("a page");
        let name = page.file_name().and_then(|name| name.to_str()).expect("a name");
        let english = read(&format!("docs/articles/{name}"));
        assert_eq!(sections(&text), sections(&english), "sections of {}", page.display());
        assert_eq!(commands(&text), commands(&english), "commands of {}", page.display());
        assert!(text.lines().nth(2).is_some_and(|line| line.starts_with('*')), "{} names no readers", page.display());
    }
}

#[test]
fn the_chart_of_direct_and_pooled_has_figures_of_the_kept_report() {
    let report: Value = serde_json::from_str(&read("docs/articles/standard-2-cores.json")).expect("JSON");
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let charts = list(&report["experiments"]).into_iter().flat_map(|experiment| list(&experiment["charts"]));
    let points = charts.flat_map(|chart| list(&chart["series"])).flat_map(|series| list(&series["points"]));
    let measured: BTreeSet<String> = points.filter_map(|point| Some(format!("{:.0}", point[1].as_f64()?))).collect();
    let chart = read("docs/pictures/direct-and-pooled.svg");
    let texts = chart.split("class=\"value\"").skip(1).filter_map(|rest| rest.split(['>', '<']).nth(1));
    let figures: Vec<_> = texts.filter(|text| *text != "refused").map(|text| text.replace(',', "")).collect();
    assert_eq!(figures.len(), 7, "the chart was not understood");
    let unknown: Vec<_> = figures.iter().filter(|figure| !measured.contains(*figure)).collect();
    assert!(unknown.is_empty(), "the report has no {unknown:?}");
}

#[test]
fn every_page_of_the_docs_names_its_readers_and_its_time_below_its_title() {
    let docs = pages().into_iter().filter(|page| page.strip_prefix(root()).is_ok_and(|path| path.starts_with("docs")));
    let without = docs.filter(|page| {
        let text = fs::read_to_string(page).expect("a page");
        let mut lines = text.lines();
        let title = lines.next().is_some_and(|line| line.starts_with("# "));
        !title || lines.next() != Some("") || !lines.next().is_some_and(|line| line.starts_with("*For "))
    });
    let without: Vec<_> = without.collect();
    assert!(without.is_empty(), "a page begins with its title and a line `*For readers who …*`: {without:?}");
}

#[test]
fn how_to_pages_install_the_versions_that_the_drivers_suite_runs() {
    // What a page says, what stands between a package and its version there, and the suite's pins.
    let pages = [
        ("django", "==", "django/requirements.txt", "=="),
        ("sqlalchemy", "==", "sqlalchemy/requirements.txt", "=="),
        ("node", "@", "node-postgres/package.json", "\": \""),
        ("prisma", "@", "prisma/package.json", "\": \""),
        ("go", "@", "pgx/go.mod", " "),
    ];
    for (page, sign, pins, pinned) in pages {
        let text = read(&format!("docs/howto/{page}.md"));
        let pins = read(&format!("tests/drivers/{pins}"));
        let words = text.lines().filter(|line| line.contains("install") || line.starts_with("go get"));
        let words = words.flat_map(str::split_whitespace).map(|word| word.trim_matches('"'));
        let packages: Vec<_> = words.filter_map(|word| word.rsplit_once(sign)).collect();
        assert!(!packages.is_empty(), "docs/howto/{page}.md installs nothing");
        for (package, version) in packages {
            let name = package.split('[').next().unwrap_or_default();
            let wanted = format!("{name}{pinned}{}", version.trim_end_matches('*'));
            assert!(pins.contains(&wanted), "docs/howto/{page}.md: {package} {version} is not what the suite runs");
        }
    }
}

/// What a heading is called in links.
fn slug(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    text.chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

fn root() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    folder.canonicalize().expect("the workspace's folder")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The pages of the project, in English. The list of the site's pages is not one of them.
fn pages() -> Vec<PathBuf> {
    let folders = ["", "docs", "docs/articles", "docs/howto", "monitoring", "bench"];
    let all = folders.map(in_folder).concat();
    all.into_iter().filter(|page| !page.ends_with("docs/SUMMARY.md")).collect()
}

/// The short forms of the articles in other languages.
fn translations() -> Vec<PathBuf> {
    ["docs/articles/vi", "docs/articles/ja"].map(in_folder).concat()
}

fn in_folder(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join(folder)).expect("a folder").map(|entry| entry.expect("an entry").path());
    entries.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect()
}

/// The cells of every table's row that begins with something in backticks.
fn rows(page: &str) -> Vec<Vec<String>> {
    let lines = page.lines().filter(|line| line.starts_with("| `"));
    lines.map(|line| line.trim_matches(['|', ' ']).split(" | ").map(|cell| cell.trim().to_owned()).collect()).collect()
}

fn code(cell: &str) -> String {
    cell.trim_matches('`').to_owned()
}

/// The dependencies of all crates of the workspace that are not crates of the workspace.
fn external_dependencies() -> BTreeSet<String> {
    // The fuzz targets are a workspace of their own.
    ["Cargo.toml", "fuzz/Cargo.toml"].into_iter().flat_map(external_dependencies_of).collect()
}

fn external_dependencies_of(manifest: &str) -> Vec<String> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--manifest-path", manifest])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo prints JSON");
    let packages = metadata["packages"].as_array().expect("there are packages");
    let dependencies = packages.iter().flat_map(|package| package["dependencies"].as_array().expect("a list"));
    let external = dependencies.filter(|dependency| dependency["path"].is_null());
    external.map(|dependency| dependency["name"].as_str().expect("a name").to_owned()).collect()
}

/// The text of an item that begins with `start` and ends with a closing brace at the same depth.
fn body<'t>(source: &'t str, start: &str) -> &'t str {
    let at = source.find(start).unwrap_or_else(|| panic!("{start} was not found"));
    let line = source[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let end = format!("\n{}}}\n", &source[line..at]);
    let length = source[at..].find(&end).expect("the item ends");
    &source[at..at + length]
}

/// The variants of the first enum in a source.
fn variants(source: &str) -> Vec<String> {
    let lines = body(source, "pub enum Refusal").lines().filter_map(|line| line.strip_prefix("    "));
    let named = lines.filter(|line| line.starts_with(|c: char| c.is_ascii_uppercase()));
    named.map(|line| line.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned()).collect()
}

/// The arms of a match over the refusals: each variant with what it leads to, which is a text, or the name of a field
/// in braces.
fn arms(text: &str) -> Vec<(String, String)> {
    // A quote within a literal, out of the way of those around it.
    let text = text.replace("\\\"", "\u{1}");
    let mut found = Vec::new();
    let mut patterns = "";
    for piece in text.split("=>") {
        let next = piece.find("Refusal::").unwrap_or(piece.len());
        // Before the first arrow there is no arm yet, only the function's head.
        if !patterns.is_empty() {
            let value = literals(&piece[..next])
                .first()
                .map_or_else(|| variable(&piece[..next]), |text| text.replace('\u{1}', "\""));
            let names = patterns.split("Refusal::").skip(1);
            let names = names.map(|name| name.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default());
            found.extend(names.map(|name| (name.to_owned(), value.clone())));
        }
        patterns = &piece[next..];
    }
    found
}

/// The name in `f.write_str(name)`, or in a bare `name`, in braces.
fn variable(arm: &str) -> String {
    let name = arm.rsplit('(').next().unwrap_or_default();
    format!("{{{}}}", name.trim_matches(|c: char| !c.is_alphanumeric()))
}

/// The string literals in a piece of source.
fn literals(text: &str) -> Vec<&str> {
    text.split('"').skip(1).step_by(2).collect()
}

/// Words that make a sentence absolute.
const ABSOLUTE: [&str; 6] = ["never", "always", "nobody", "nothing", "no client", "no byte"];

#[test]
fn every_promise_names_tests_that_exist_and_absolute_sentences_link_to_them() {
    let page = read("docs/promises.md");
    let sections: Vec<&str> = page.split("\n## ").skip(1).collect();
    let mut anchors = BTreeSet::new();
    for section in &sections {
        let (heading, body) = section.split_once('\n').expect("a heading and a body");
        anchors.insert(heading.to_lowercase().replace(' ', "-"));
        for item in body.split("\n- ").skip(1) {
            let mut names = item.split('`').skip(1).step_by(2);
            let file = names.next().expect("a file comes first");
            let source = read(file);
            for name in names.filter(|name| !name.contains('/')) {
                assert!(
                    source.contains(&format!("#[test]\nfn {name}(")) || source.contains(&format!("    fn {name}(")),
                    "{file} has no test {name}"
                );
            }
        }
        assert!(body.contains("\n- `"), "{heading} names no test");
    }
    let mut used = BTreeSet::new();
    for (file, link) in
        [("README.md", "docs/promises.md#"), ("SECURITY.md", "docs/promises.md#"), ("docs/pooling.md", "promises.md#")]
    {
        let text = read(file);
        for part in text.split(link).skip(1) {
            let anchor = part.split(')').next().unwrap_or_default().to_owned();
            assert!(anchors.contains(&anchor), "{file}: there is no promise #{anchor}");
            used.insert(anchor);
        }
        // Tables of what others claim are not ours.
        for block in blocks(&text) {
            let words = format!(" {} ", block.to_lowercase().replace(['\n', '.', ',', ';', '*', ':'], " "));
            let absolute = ABSOLUTE.iter().find(|word| words.contains(&format!(" {word} ")));
            let ours = !block.trim_start().starts_with(['|', '#', '`']);
            assert!(
                absolute.is_none() || !ours || block.contains(link),
                "{file}: {absolute:?} without a link to its tests:\n{block}"
            );
        }
    }
    let unused: Vec<_> = anchors.difference(&used).collect();
    assert!(unused.is_empty(), "promises that no page makes: {unused:?}");
}

/// The paragraphs of a page, and the items of its lists.
fn blocks(page: &str) -> Vec<String> {
    let mut blocks = vec![String::new()];
    for line in page.lines() {
        let item = line.starts_with("- ") || line.trim_start_matches(|c: char| c.is_ascii_digit()).starts_with(". ");
        if line.is_empty() || item {
            blocks.push(String::new());
        }
        let block = blocks.last_mut().expect("there is one");
        block.push_str(line);
        block.push('\n');
    }
    blocks
}
