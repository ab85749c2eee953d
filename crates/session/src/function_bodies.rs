//! Whether the bodies of a pool's functions are still those that were read (`mode = "auto"`): they change by a CREATE
//! FUNCTION of the pool's clients, on any worker, and by anybody else, as a migration that connects directly.
//!
//! Owns at which changes they were read. What happens past the pool is what the server has counted in its cumulative
//! statistics of functions, triggers, policies and views (PostgreSQL's documentation, "The Cumulative Statistics System"), which
//! are about a second behind, are off without `track_counts`, and say nothing on a standby. Until a question shows it,
//! a text of which all was known may have left something on any server of the pool: if what leaves state has changed
//! ([`crate::leaving_functions::SOURCES`]), all are replaced then. Each question about hidden
//! effects asks for that count, from PostgreSQL 15 on: before, reading it takes longer than all else that is asked. Texts
//! that are well known ask ever more rarely, so where there was no question for a while, the next text asks one.
//!
//! Once they were read, one question at a time is about them, in a pool on a worker: meanwhile other servers are asked only for what is there, and
//! nothing is learned of their texts. A client that has changed functions itself asks for itself: an answer of which nobody
//! knows whether its change was in it says nothing of its next texts.
//!
//! Bounded: [`MOST_SERVERS`] servers, and [`MOST_BYTES`] of each.

use std::sync::{Arc, Weak};

/// Marks a row with what a server has counted: its identity, a slash, and the count.
pub(crate) const COUNTED: &str = "*bodies";

/// The questions about bodies under way, but for those of clients that have changed functions themselves: one is enough
/// for all, and takes seconds where bodies are long.
const MOST_QUESTIONS: usize = 1;

/// The servers of a pool whose counts are remembered.
const MOST_SERVERS: usize = 64;

/// More is no answer to our question.
const MOST_BYTES: usize = 128;

/// What is counted of `pg_proc`, `pg_trigger`, `pg_policy`, `pg_rewrite` and `pg_db_role_setting`. The end of a temporary
/// function is no news.
const COUNTS: [(&str, u32); 11] = [
    ("inserted", 1255),
    ("updated", 1255),
    ("inserted", 2620),
    ("updated", 2620),
    ("inserted", 3256),
    ("updated", 3256),
    ("inserted", 2618),
    ("updated", 2618),
    ("inserted", 2964),
    ("updated", 2964),
    ("deleted", 2964),
];

/// At which changes bodies were read.
#[derive(Debug, Default)]
pub(crate) struct FunctionBodies {
    /// How often functions had changed, as any worker of the pool has seen; `None`: they are not read.
    read_at: Option<u64>,
    /// At how many of these changes texts were last judged again.
    judged_at: u64,
    /// There was no question for a while.
    is_due: bool,
    /// How often they were found changed past the pool when servers were last replaced for it.
    followed: u64,
    /// Servers by address and start, and what they had counted.
    servers: Vec<(String, String)>,
    /// The newest question about them, until it is answered or its server is lost.
    question: Weak<()>,
}

/// What a question to a server says of bodies.
#[derive(Debug, Default)]
pub(crate) enum AskedBodies {
    /// Nothing: they are known.
    #[default]
    Known,
    /// Nothing: another server is asked for them.
    Elsewhere,
    /// It asks for them, when clients of the pool have changed functions so often.
    Here { changes: u64, _question: Arc<()> },
}

impl AskedBodies {
    pub(crate) fn are_known(&self) -> bool {
        matches!(self, AskedBodies::Known)
    }
}

impl FunctionBodies {
    /// Whether they were read since clients of the pool have changed functions so often.
    pub(crate) fn are_read(&self, changes: u64) -> bool {
        self.read_at == Some(changes)
    }

    /// A server is asked what its client has left, when clients of the pool have changed functions so often; `own`: the client has
    /// changed some itself. Returns what the question says of bodies, which is to be kept until it is answered.
    pub(crate) fn ask(&mut self, changes: u64, own: bool) -> AskedBodies {
        if self.are_read(changes) {
            return AskedBodies::Known;
        }
        // At first nothing is known of any text.
        if !own && self.read_at.is_some() && self.question.strong_count() >= MOST_QUESTIONS {
            return AskedBodies::Elsewhere;
        }
        let question = Arc::new(());
        self.question = Arc::downgrade(&question);
        AskedBodies::Here { changes, _question: question }
    }

    /// Whether texts are to be judged again, since functions have changed so often on all workers.
    #[inline]
    pub(crate) fn are_news(&mut self, changes: u64) -> bool {
        std::mem::replace(&mut self.judged_at, changes) != changes
    }

    /// There was no question for a while: the next text asks one.
    pub(crate) fn ask_soon(&mut self) {
        self.is_due = true;
    }

    /// Whether a text asks although nothing is unknown of it.
    #[inline]
    pub(crate) fn are_due(&self) -> bool {
        self.is_due
    }

    /// A question asks for what the server has counted.
    pub(crate) fn asked(&mut self) {
        self.is_due = false;
    }

    /// Whether idle servers are to be closed, now that functions that leave state were found changed so often on all workers.
    #[inline]
    pub(crate) fn take_outdated_servers(&mut self, found: u64) -> bool {
        std::mem::replace(&mut self.followed, found) != found
    }

    /// They were read when clients had changed functions so often, and a server had counted this.
    pub(crate) fn read(&mut self, changes: u64, counted: Option<&str>) {
        self.read_at = Some(changes);
        counted.map(|counted| self.note(counted));
    }

    /// What a server has counted, when it was not asked for bodies. Returns whether that is news: all workers are to read
    /// them again.
    pub(crate) fn have_changed(&mut self, counted: &str) -> bool {
        self.read_at.is_some() && self.note(counted)
    }

    fn note(&mut self, counted: &str) -> bool {
        let Some((server, count)) = counted.rsplit_once('/').filter(|_| counted.len() <= MOST_BYTES) else {
            return false;
        };
        match self.servers.iter_mut().find(|(known, _)| known == server) {
            Some((_, known)) if known == count => false,
            Some((_, known)) => {
                count.clone_into(known);
                true
            }
            None => {
                if self.servers.len() >= MOST_SERVERS {
                    self.servers.remove(0);
                }
                self.servers.push((server.to_owned(), count.to_owned()));
                true
            }
        }
    }
}

/// The query for what a server has counted.
pub(crate) fn query() -> String {
    let counts = COUNTS.map(|(kind, oid)| format!("pg_catalog.pg_stat_get_tuples_{kind}({oid}::pg_catalog.oid)"));
    format!(
        "SELECT '{COUNTED}',pg_catalog.concat(pg_catalog.inet_server_addr(),'-',pg_catalog.inet_server_port(),'-',\
         pg_catalog.date_part('epoch',pg_catalog.pg_postmaster_start_time())::pg_catalog.int8,'/',{}) \
         WHERE pg_catalog.current_setting('server_version_num')::pg_catalog.int4 OPERATOR(pg_catalog.>=) 150000",
        counts.join(" OPERATOR(pg_catalog.+) ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_read_again_after_a_change_by_clients_or_past_the_pool() {
        let mut bodies = FunctionBodies::default();
        assert!(!bodies.are_read(0) && !bodies.have_changed("a/1"), "they are not read yet");
        bodies.read(0, Some("a/1"));
        assert!(bodies.are_read(0) && !bodies.are_read(1));
        assert!(!bodies.have_changed("a/1"));
        assert!(bodies.have_changed("a/2"), "past the pool");
        assert!(!bodies.are_news(0) && bodies.are_news(1) && !bodies.are_news(1));
        bodies.read(1, Some("a/2"));
        assert!(bodies.have_changed("b/2"), "another server, or one that was started again");
        bodies.read(1, Some("b/2"));
        assert!(!["a/2", "b/2"].iter().any(|counted| bodies.have_changed(counted)));
    }

    #[test]
    fn idle_servers_are_closed_once_for_each_change_that_was_found() {
        let mut bodies = FunctionBodies::default();
        assert!(
            !bodies.take_outdated_servers(0) && bodies.take_outdated_servers(1) && !bodies.take_outdated_servers(1)
        );
    }

    #[test]
    fn a_question_that_is_due_is_asked_once() {
        let mut bodies = FunctionBodies::default();
        assert!(!bodies.are_due());
        bodies.ask_soon();
        assert!(bodies.are_due() && bodies.are_due(), "by each text until it is asked");
        bodies.asked();
        assert!(!bodies.are_due());
    }

    #[test]
    fn one_server_at_a_time_is_asked_for_bodies_and_each_whose_client_has_changed_some() {
        let mut bodies = FunctionBodies::default();
        let early = [bodies.ask(0, false), bodies.ask(0, false)];
        assert!(early.iter().all(|asked| matches!(asked, AskedBodies::Here { changes: 0, .. })), "{early:?}");
        bodies.read(0, None);
        drop(early);
        let first = bodies.ask(1, false);
        assert!(matches!(first, AskedBodies::Here { changes: 1, .. }));
        assert!(matches!(bodies.ask(1, false), AskedBodies::Elsewhere));
        assert!(matches!(bodies.ask(2, false), AskedBodies::Elsewhere), "until the next text");
        let own = bodies.ask(2, true);
        assert!(matches!(own, AskedBodies::Here { changes: 2, .. }));
        drop((first, own));
        assert!(
            matches!(bodies.ask(2, false), AskedBodies::Here { changes: 2, .. }),
            "its server was lost, or did not answer"
        );
        bodies.read(2, None);
        assert!(
            bodies.ask(2, true).are_known() && matches!(bodies.ask(3, false), AskedBodies::Here { changes: 3, .. })
        );
    }

    #[test]
    fn no_answer_is_no_change_and_servers_are_bounded() {
        let mut bodies = FunctionBodies::default();
        bodies.read(0, None);
        assert!(bodies.are_read(0));
        assert!(!["nonsense", &"x/".repeat(100)].iter().any(|counted| bodies.have_changed(counted)));
        (0..100).for_each(|server| bodies.read(0, Some(&format!("{server}/1"))));
        assert_eq!(bodies.servers.len(), MOST_SERVERS);
    }
}
