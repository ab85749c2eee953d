//! Pages that a reader pastes from run here as they are written, with a real PostgreSQL.
//!
//! Each block that is marked `sh` goes to one bash, in the order of the page; its exit status must be 0, or not 0 where
//! it is marked `sh fails`; one that is marked `sh last` removes what the page made, and runs at the end. A block `text`
//! after it is its output, in which `…` stands for any text. Only port numbers are replaced, so that tests can run at the
//! same time. Other blocks are not run.
//!
//! A how-to page builds on the first configuration of the README, which runs before it.

mod dashboard;
mod player;
mod symptoms;

use std::process::{Command, Stdio};

use player::{play, play_on_server};

/// Whether all programs that a page needs are there and work. If not, a line names the one that is missing: its page is
/// skipped.
fn has(page: &str, programs: &[&str]) -> bool {
    let works = |program: &&&str| {
        let words: Vec<&str> = program.split(' ').collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let Some(missing) = programs.iter().find(|program| !works(program)) else { return true };
    weir_tests::skipped(&format!("{page}: `{missing}` does not work here"));
    false
}

#[test]
fn the_first_configuration_of_the_readme_works_when_pasted() {
    play_on_server(&["README.md"]);
}

#[test]
#[cfg_attr(not(feature = "long"), ignore = "fetches packages; runs with the feature long")]
fn the_tutorial_works_when_pasted() {
    play(&["docs/tutorial.md"]);
}

#[test]
fn the_pages_on_session_features_modes_tls_sizing_and_metrics_work_when_pasted() {
    play_on_server(&["README.md", SESSION_FEATURES]);
    play_on_server(&["README.md", "docs/howto/modes.md"]);
    play_on_server(&["README.md", "docs/howto/tls.md"]);
    play_on_server(&["README.md", "docs/howto/grafana.md", "docs/howto/sizing.md"]);
    play_on_server(&["README.md", "docs/howto/fair-shares.md"]);
}

const SESSION_FEATURES: &str = "docs/howto/session-features.md";

/// As a reader does it who has one machine and goes through the list of how-to pages, again, and begins anew.
#[test]
#[cfg_attr(not(feature = "long"), ignore = "fetches packages; runs with the feature long")]
fn the_readme_the_tutorial_and_every_how_to_page_work_in_turn_and_again() {
    let listed = how_to_pages();
    for (page, _) in PROGRAMS {
        assert!(listed.iter().any(|listed| listed == page), "{page} is not listed, or has nothing to run");
    }
    let pages = std::iter::once("docs/tutorial.md").chain(listed.iter().map(String::as_str));
    let pages: Vec<&str> = pages.filter(|page| can_play(page)).collect();
    play_on_server(&[&["README.md"], &pages[..], &pages[..], &["README.md"], &pages[..1]].concat());
}

fn can_play(page: &str) -> bool {
    PROGRAMS.iter().find(|(needing, _)| *needing == page).is_none_or(|(page, programs)| has(page, programs))
}

/// What how-to pages need besides `weir`, PostgreSQL's programs and Python.
const PROGRAMS: [(&str, &[&str]); 5] = [
    ("docs/howto/node.md", &["node --version", "npm --version"]),
    ("docs/howto/go.md", &["go version"]),
    ("docs/howto/spring.md", &["javac --version", "mvn --version"]),
    ("docs/howto/prisma.md", &["node --version", "npm --version"]),
    ("docs/howto/rails.md", &["ruby -e require('rails');require('active_record');require('pg')"]),
];

/// The how-to pages with something to run, in the order of their list.
fn how_to_pages() -> Vec<String> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/howto");
    let list = std::fs::read_to_string(format!("{folder}/README.md")).expect("the list of the pages");
    let rows = list.lines().filter(|line| line.starts_with('|'));
    let names = rows.filter_map(|row| row.split('|').nth(2)?.split_once("](")?.1.strip_suffix(") "));
    let has_blocks = |name: &&str| {
        let text =
            std::fs::read_to_string(format!("{folder}/{name}")).unwrap_or_else(|error| panic!("{name}: {error}"));
        text.contains("\n```sh")
    };
    names.filter(|name| !name.starts_with("../")).filter(has_blocks).map(|name| format!("docs/howto/{name}")).collect()
}

#[test]
#[cfg_attr(not(feature = "long"), ignore = "fetches packages; runs with the feature long")]
fn the_pages_on_python_work_when_pasted() {
    if has("docs/howto/django.md and sqlalchemy.md", &["python3 -m venv --help"]) {
        play_on_server(&["README.md", "docs/howto/django.md"]);
        play_on_server(&["README.md", "docs/howto/sqlalchemy.md"]);
    }
}

#[test]
#[cfg_attr(not(feature = "long"), ignore = "fetches packages; runs with the feature long")]
fn the_page_on_node_works_when_pasted() {
    if can_play("docs/howto/node.md") {
        play_on_server(&["README.md", "docs/howto/node.md"]);
    }
}

/// Not `prisma migrate`: its engine is in no package, see the page.
#[test]
#[cfg_attr(not(feature = "long"), ignore = "fetches packages; runs with the feature long")]
fn the_page_on_prisma_works_when_pasted() {
    if can_play("docs/howto/prisma.md") {
        play_on_server(&["README.md", SESSION_FEATURES, "docs/howto/prisma.md"]);
    }
}

#[test]
#[cfg_attr(not(feature = "long"), ignore = "fetches packages; runs with the feature long")]
fn the_page_on_go_works_when_pasted() {
    if can_play("docs/howto/go.md") {
        play_on_server(&["README.md", "docs/howto/go.md"]);
    }
}

#[test]
#[cfg_attr(not(feature = "long"), ignore = "fetches packages; runs with the feature long")]
fn the_page_on_spring_works_when_pasted() {
    if can_play("docs/howto/spring.md") {
        play_on_server(&["README.md", SESSION_FEATURES, "docs/howto/spring.md"]);
    }
}

#[test]
#[cfg_attr(not(feature = "long"), ignore = "takes a while; runs with the feature long")]
fn the_page_on_rails_works_when_pasted() {
    if can_play("docs/howto/rails.md") {
        play_on_server(&["README.md", "docs/howto/rails.md"]);
    }
}
