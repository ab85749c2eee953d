//! Names of the operating system's users, which the method `peer` compares with the user names of clients.
//!
//! Owns the recent answers of helpers, and the look-ups under way: one for each user, for all clients that wait.

use std::collections::HashMap;
use std::sync::Arc;

use weir_base::{Span, Time};

use crate::common::{Cx, Job};
use crate::port::{Io, Work};

/// The limit of cached names.
const MAX_NAMES: usize = 256;
/// How long a name is cached.
const KEPT_FOR: Span = Span::from_secs(60);

/// See the head of the file.
#[derive(Default)]
pub(crate) struct UserNames {
    /// `None` for a user without a name.
    known: HashMap<u32, (Option<Arc<str>>, Time)>,
    asked: Vec<u32>,
}

impl UserNames {
    /// The name of a user; `None` if a helper must look it up.
    pub(crate) fn get(&self, uid: u32, now: Time) -> Option<Option<Arc<str>>> {
        let (name, since) = self.known.get(&uid)?;
        (now.since(*since) < KEPT_FOR).then(|| name.clone())
    }

    /// Has a helper look up a name, which calls [`UserNames::learn`].
    pub(crate) fn ask<I: Io>(&mut self, cx: &mut Cx<'_, I>, uid: u32) {
        if !self.asked.contains(&uid) {
            self.asked.push(uid);
            let job = cx.common.begin_job(Job::NameOfUser(uid));
            cx.io.submit_job(job, Work::NameOfUser(uid));
        }
    }

    /// A helper has answered.
    pub(crate) fn learn(&mut self, uid: u32, name: Option<Arc<str>>, now: Time) {
        if self.known.len() >= MAX_NAMES {
            self.known.clear();
        }
        self.known.insert(uid, (name, now));
        self.asked.retain(|asked| *asked != uid);
    }
}
