//! The adoption of configurations from etcd: each revision whole or not at all, in order, and stored before it is run.
//!
//! Owns which revision runs, which is being tried, and which was refused last. The caller reads, checks and stores
//! texts.

use crate::request::Revision;

/// See the head of the file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Adoption {
    running: Revision,
    trying: Option<Revision>,
    newest: Option<(Revision, String)>,
    refused: Option<(Revision, String)>,
}

/// How the trial of a revision ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The revision is stored on disk and in force.
    Adopted,
    /// The former revision is in force; holds why.
    Refused(String),
}

impl Adoption {
    /// A node that runs this revision, from its disk; 0 is its own file only.
    pub fn new(running: Revision) -> Adoption {
        Adoption { running, ..Adoption::default() }
    }

    /// The configuration in etcd has this revision. Older ones are ignored: replies may come late.
    pub fn seen(&mut self, revision: Revision, text: String) {
        let known = self.newest.as_ref().map_or(self.running, |(newest, _)| *newest);
        if revision > known.max(self.refused.as_ref().map_or(0, |(refused, _)| *refused)) {
            self.newest = Some((revision, text));
        }
    }

    /// Etcd's store has this revision now. One below those that are known is another store, restored or made anew: its
    /// revisions are compared from 0 on. What runs stays in force until the store has a configuration.
    pub fn store_is_at(&mut self, revision: Revision) {
        let known = self.refused.as_ref().map_or(self.running, |(refused, _)| self.running.max(*refused));
        if revision < known && self.trying.is_none() {
            *self = Adoption::default();
        }
    }

    /// This node has written this revision, and runs it.
    pub fn written(&mut self, revision: Revision) {
        self.newest = self.newest.take().filter(|(newest, _)| *newest > revision);
        (self.running, self.refused) = (revision, None);
    }

    /// Whether no newer revision than the one in force is known.
    pub fn is_newest(&self) -> bool {
        self.newest.is_none() && self.trying.is_none() && self.refused.is_none()
    }

    /// The next revision to try, one at a time.
    pub fn next_trial(&mut self) -> Option<(Revision, &str)> {
        let (revision, text) = self.newest.as_ref()?;
        if self.trying.is_some() || *revision <= self.running {
            return None;
        }
        self.trying = Some(*revision);
        Some((*revision, text))
    }

    /// The trial of the revision that [`next_trial`](Adoption::next_trial) returned has ended.
    pub fn tried(&mut self, outcome: Outcome) {
        let Some(revision) = self.trying.take() else { return };
        match outcome {
            Outcome::Adopted => (self.running, self.refused) = (revision, None),
            Outcome::Refused(why) => self.refused = Some((revision, why)),
        }
        if self.newest.as_ref().is_some_and(|(newest, _)| *newest == revision) {
            self.newest = None;
        }
    }

    /// The revision in force.
    pub fn running(&self) -> Revision {
        self.running
    }

    /// The last revision that was refused since, and why.
    pub fn refused(&self) -> Option<(Revision, &str)> {
        self.refused.as_ref().map(|(revision, why)| (*revision, why.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_are_tried_one_at_a_time_and_the_newest_wins() {
        let mut adoption = Adoption::new(5);
        adoption.seen(4, "old".into());
        assert_eq!(adoption.next_trial(), None);
        adoption.seen(6, "six".into());
        assert_eq!(adoption.next_trial(), Some((6, "six")));
        adoption.seen(7, "seven".into());
        adoption.seen(8, "eight".into());
        assert_eq!(adoption.next_trial(), None);
        adoption.tried(Outcome::Adopted);
        assert_eq!((adoption.running(), adoption.next_trial()), (6, Some((8, "eight"))));
    }

    #[test]
    fn a_revision_that_this_node_has_written_is_not_tried() {
        let mut adoption = Adoption::new(5);
        assert!(adoption.is_newest());
        adoption.seen(6, "six".into());
        assert!(!adoption.is_newest());
        adoption.written(6);
        assert!(adoption.is_newest());
        adoption.seen(6, "six".into());
        assert_eq!((adoption.running(), adoption.next_trial()), (6, None));
    }

    #[test]
    fn a_store_that_was_made_anew_is_followed() {
        let mut adoption = Adoption::new(50);
        adoption.store_is_at(60);
        adoption.seen(7, "late".into());
        assert_eq!(adoption.next_trial(), None);
        adoption.store_is_at(7);
        adoption.seen(7, "new".into());
        assert_eq!(adoption.next_trial(), Some((7, "new")));
    }

    #[test]
    fn a_refused_revision_leaves_the_old_one_in_force_and_is_not_tried_again() {
        let mut adoption = Adoption::new(5);
        adoption.seen(6, "bad".into());
        adoption.next_trial();
        adoption.tried(Outcome::Refused("no host".into()));
        adoption.seen(6, "bad".into());
        assert_eq!(adoption.next_trial(), None);
        assert_eq!((adoption.running(), adoption.refused()), (5, Some((6, "no host"))));
        adoption.seen(9, "good".into());
        adoption.next_trial();
        adoption.tried(Outcome::Adopted);
        assert_eq!((adoption.running(), adoption.refused()), (9, None));
    }
}
