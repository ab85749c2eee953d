//! `tests/regress/differences.txt`: the tests whose output must differ, and why.

use crate::suite::{Suite, Way};

const TEXT: &str = include_str!("../../../regress/differences.txt");

/// An entry of the list.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    /// At most so many lines are only in one of the outputs. None: the test can't be run this way.
    pub(crate) lines: Option<usize>,
    pub(crate) why: &'static str,
}

/// The entry of a test.
pub(crate) fn of(suite: Suite, way: Way, test: &str) -> Option<Listed> {
    let place = format!("{suite} {way} {test}");
    TEXT.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let (head, why) = line.split_once(": ")?;
        let (named, lines) = head.rsplit_once(' ')?;
        (named == place).then(|| Listed { lines: lines.parse().ok(), why })
    })
}

#[test]
fn each_line_of_the_list_has_a_suite_a_mode_a_test_what_differs_and_a_reason() {
    for line in TEXT.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split(' ').collect();
        let entry = Suite::named(words[0]).zip(Way::named(words[1])).and_then(|(suite, way)| of(suite, way, words[2]));
        let counts =
            words[3] == "not-run:" || words[3].trim_end_matches(':').parse().is_ok_and(|lines: usize| lines > 0);
        assert!(counts && entry.is_some_and(|entry| !entry.why.is_empty()), "{line}");
    }
}
