//! What a worker knows of the primaries of pools.
//!
//! Owns which hosts a pool's logins and servers may be at. Every worker carries out the same steps in the same order, so
//! all have the same view.

use std::collections::HashMap;
use std::sync::Arc;

use weir_base::{ConnId, Target};
use weir_config::{Config, SessionAttrs};

use crate::primary::hints::Hints;

/// What is known, by the pools' names.
#[derive(Default)]
pub(crate) struct Primaries {
    known: HashMap<Arc<str>, View>,
    /// By the names of pools that leave hosts: servers there whose clients may still write. Some may have been released
    /// since.
    holdouts: HashMap<Arc<str>, Vec<ConnId>>,
    /// What Patroni says.
    pub(crate) hints: Hints,
}

/// What is known of one pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum View {
    /// Its primary is no more, and the next one is not known.
    Unknown,
    /// It moves to this host. `holds`: nothing is opened meanwhile.
    Leaving { to: Target, holds: bool },
    /// An operator has it move to this host, and the old one is left.
    Looking(Target),
    /// It writes to this host.
    At(Target),
}

/// Whether a login that has found a fit host may go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Admission {
    Goes,
    /// It waits until worker 0 has decided.
    Waits,
    /// The pool is moving to another host.
    Elsewhere,
}

impl View {
    /// The host that the pool writes to, or moves to.
    pub(crate) fn host(&self) -> Option<&Target> {
        match self {
            View::Unknown => None,
            View::Leaving { to: host, .. } | View::Looking(host) | View::At(host) => Some(host),
        }
    }
}

impl Primaries {
    pub(crate) fn of(&self, pool: &str) -> Option<&View> {
        self.known.get(pool)
    }

    pub(crate) fn set(&mut self, pool: Arc<str>, view: View) {
        self.holdouts.remove(&pool);
        self.known.insert(pool, view);
    }

    /// The clients of these servers may still write to a host that a pool leaves.
    pub(crate) fn hold_out(&mut self, pool: &Arc<str>, servers: impl IntoIterator<Item = ConnId>) {
        if matches!(self.of(pool), Some(View::Leaving { .. })) {
            self.holdouts.entry(pool.clone()).or_default().extend(servers);
        }
    }

    /// Whether no client may write any more to a host that a pool leaves; `holds_out`: whether a server's still may. Each
    /// server is asked about once it holds out no more, and once in between for each call.
    pub(crate) fn is_fenced(&mut self, pool: &str, holds_out: impl Fn(ConnId) -> bool) -> bool {
        let Some(servers) = self.holdouts.get_mut(pool) else { return true };
        while servers.pop_if(|server| !holds_out(*server)).is_some() {}
        servers.is_empty()
    }

    /// Whether a pool knows its primary, so that its logins need not look for it.
    pub(crate) fn is_known(&self, pool: &str) -> bool {
        matches!(self.of(pool), Some(View::At(_)))
    }

    /// The host at which a pool's next login is tried first.
    pub(crate) fn first(&self, pool: &str) -> Option<&Target> {
        self.of(pool).and_then(View::host)
    }

    /// The only host that a pool may try, while an operator has it move there.
    pub(crate) fn only(&self, pool: &str) -> Option<&Target> {
        match self.of(pool)? {
            View::Looking(host) => Some(host),
            _ => None,
        }
    }

    /// Whether a pool opens nothing and hands out nothing, because an operator has it move.
    pub(crate) fn holds(&self, pool: &str) -> bool {
        matches!(self.of(pool), Some(View::Leaving { holds: true, .. }))
    }

    /// Whether a pool moves.
    pub(crate) fn is_moving(&self) -> bool {
        self.known.values().any(|view| matches!(view, View::Leaving { .. } | View::Looking(_)))
    }

    /// Whether a server of a pool may be handed out: it is at the host that the pool writes or moves to.
    pub(crate) fn may_stay(&self, pool: &str, attrs: SessionAttrs, at: &Target) -> bool {
        !attrs.wants_primary() || self.of(pool).is_none_or(|view| view.host() == Some(at))
    }

    /// Whether a pool's login at a fit host may go on.
    pub(crate) fn admits(&self, pool: &str, at: &Target) -> Admission {
        match self.of(pool) {
            Some(View::At(host)) if host == at => Admission::Goes,
            Some(View::Leaving { to: host, .. } | View::Looking(host)) if host != at => Admission::Elsewhere,
            _ => Admission::Waits,
        }
    }

    /// A new configuration: drops what it does not have. Returns the names of the pools.
    pub(crate) fn apply_config(&mut self, config: &Config) -> Vec<Arc<str>> {
        let wants = |name: &str| config.pool(name).is_some_and(|pool| pool.session_attrs.wants_primary());
        self.holdouts.retain(|name, _| wants(name));
        self.known.extract_if(|name, _| !wants(name)).map(|(name, _)| name).collect()
    }
}
