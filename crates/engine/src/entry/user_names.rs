//! Names of the operating system's users, which the method `peer` compares with those that clients give.
//!
//! Owns what helpers have answered lately, and who is being asked about: each user once, however many clients wait.

use std::collections::HashMap;
use std::sync::Arc;

use weir_base::{Span, Time};

use crate::common::{Cx, Job};
use crate::port::{Io, Work};

/// The most names that are kept.
const MAX_NAMES: usize = 256;
/// For so long a name is kept.
const KEPT_FOR: Span = Span::from_secs(60);

/// See the head of the file.
#[derive(Default)]
pub(crate) struct UserNames {
    /// `None` for a user without a name.
    known: HashMap<u32, (Option<Arc<str>>, Time)>,
    asked: Vec<u32>,
}

impl UserNames {
    /// The name of a user; `None` if a helper must be asked for it.
    pub(crate) fn get(&self, uid: u32, now: Time) -> Option<Option<Arc<str>>> {
        let (name, since) = self.known.get(&uid)?;
        (now.since(*since) < KEPT_FOR).then(|| name.clone())
    }

    /// Asks a helper for a name, answered by [`UserNames::learn`].
    pub(crate) fn ask<I: Io>(&mut self, cx: &mut Cx<'_, I>, uid: u32) {
        if !self.asked.contains(&uid) {
            self.asked.push(uid);
            let job = cx.common.begin_job(Job::NameOfUser(uid));
            cx.io.help(job, Work::NameOfUser(uid));
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
