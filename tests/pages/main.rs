//! Pages that a reader pastes from run here as they are written, with a real PostgreSQL.
//!
//! Each block that is marked `sh` goes to one bash, in the order of the page; its exit status must be 0, or not 0 where
//! it is marked `sh fails`. A block `text` after it is its output, in which `…` stands for any text. Only port numbers
//! are replaced, so that tests can run at the same time. Other blocks are not run.
//!
//! A how-to page builds on the first configuration of the README, which runs before it.

mod player;

use player::{play, play_on_server};

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
fn the_pages_on_session_features_tls_sizing_and_metrics_work_when_pasted() {
    play_on_server(&["README.md", "docs/howto/session-features.md"]);
    play_on_server(&["README.md", "docs/howto/tls.md"]);
    play_on_server(&["README.md", "docs/howto/grafana.md", "docs/howto/sizing.md"]);
}

#[test]
#[cfg_attr(not(feature = "long"), ignore = "fetches packages; runs with the feature long")]
fn the_pages_on_python_work_when_pasted() {
    play_on_server(&["README.md", "docs/howto/django.md"]);
    play_on_server(&["README.md", "docs/howto/sqlalchemy.md"]);
}

#[test]
#[cfg_attr(not(feature = "long"), ignore = "fetches packages; runs with the feature long")]
fn the_page_on_node_works_when_pasted() {
    play_on_server(&["README.md", "docs/howto/node.md"]);
}

#[test]
#[cfg_attr(not(feature = "long"), ignore = "fetches packages; runs with the feature long")]
fn the_page_on_go_works_when_pasted() {
    play_on_server(&["README.md", "docs/howto/go.md"]);
}
