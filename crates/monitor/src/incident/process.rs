//! A backend in the view: what the server shows of it, and the client that Weir has linked to it.

use serde::Serialize;
use weir_admin::{Backend, BackendKey, SocketRecord, identifier, quoted};

use crate::pinned::Pinned;
use crate::whole::{whole, whole_or_none};

/// A backend.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Process {
    /// 0 is a prepared transaction, which has no process.
    pub(super) process_id: u32,
    /// Whether the backend is a server of this pool.
    pub(super) of_pool: bool,
    /// The client that has the backend; none if the backend is not of this pool.
    pub(super) client: Option<Client>,
    pub(super) user: String,
    pub(super) application_name: String,
    pub(super) address: Option<String>,
    /// As PostgreSQL names it: `active`, `idle in transaction` …; none where it is unknown.
    pub(super) state: Option<String>,
    waits_for: Option<String>,
    pub(super) statement: Option<String>,
    pub(super) transaction_seconds: Option<f64>,
    pub(super) state_seconds: Option<f64>,
    pub(super) blocked_by: Vec<u32>,
    /// Why its client keeps it between transactions.
    pinned: Option<Pinned>,
    /// How long the client that keeps it has asked nothing.
    pub(super) pinned_idle_seconds: Option<f64>,
    /// The body of a request that cancels or terminates the backend; none where the pool's user may not see it.
    key: Option<ProcessKey>,
}

/// A client of the pool.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Client {
    pub(super) id: u64,
    pub(super) user: String,
    pub(super) application_name: String,
    pub(super) address: String,
    port: u16,
    /// How long the client has waited for a server; 0 for a client that has one.
    pub(super) wait_seconds: f64,
}

/// What a backend does, in microseconds since 1970.
#[derive(Clone, Copy, Debug, Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessKey {
    #[serde(deserialize_with = "whole")]
    started: u64,
    #[serde(default, deserialize_with = "whole_or_none")]
    transaction: Option<u64>,
    #[serde(default, deserialize_with = "whole_or_none")]
    query: Option<u64>,
}

impl ProcessKey {
    /// The backend with this process id, while it does what the key says.
    pub fn of(self, process_id: u32) -> BackendKey {
        let ProcessKey { started, transaction, query } = self;
        BackendKey { process_id, started: Some(started), transaction, query }
    }
}

impl Client {
    pub(super) fn of(record: &SocketRecord) -> Client {
        let waits = record.state == "waiting";
        Client {
            id: record.id,
            user: record.user.clone(),
            application_name: record.application_name.clone(),
            address: record.addr.clone(),
            port: record.port,
            wait_seconds: if waits { record.wait.micros() as f64 / 1e6 } else { 0.0 },
        }
    }
}

impl Process {
    /// A process of which only its number is known.
    pub(super) fn unknown(process_id: u32) -> Process {
        Process {
            process_id,
            of_pool: false,
            client: None,
            user: String::new(),
            application_name: String::new(),
            address: None,
            state: None,
            waits_for: None,
            statement: None,
            transaction_seconds: None,
            state_seconds: None,
            blocked_by: Vec::new(),
            pinned: None,
            pinned_idle_seconds: None,
            key: None,
        }
    }

    /// What the server shows.
    pub(super) fn shown(backend: &Backend) -> Process {
        let BackendKey { process_id, started, transaction, query } = backend.key;
        Process {
            user: backend.user.clone(),
            application_name: backend.application_name.clone(),
            address: backend.address.clone(),
            state: backend.state.clone(),
            waits_for: backend.waits_for.clone(),
            statement: backend.statement.clone(),
            transaction_seconds: backend.transaction_seconds,
            state_seconds: backend.state_seconds,
            blocked_by: backend.blocked_by.clone(),
            key: started.map(|started| ProcessKey { started, transaction, query }),
            ..Process::unknown(process_id)
        }
    }

    /// A server of the pool: with what Weir knows of it and of its client. `now` is in microseconds since 1970.
    #[must_use]
    pub(super) fn linked(mut self, server: &SocketRecord, client: Option<&SocketRecord>, now: u64) -> Process {
        let since = |at: Option<u64>| at.map(|at| now.saturating_sub(at) as f64 / 1e6);
        self.of_pool = true;
        self.transaction_seconds = self.transaction_seconds.or(since(server.transaction_time));
        self.state_seconds = self.state_seconds.or(since(server.query_time));
        if self.state.is_none() {
            self.state = match (server.query_time, server.held_for) {
                (Some(_), _) => Some("active".to_owned()),
                (None, Some("in transaction" | "failed transaction")) => Some("idle in transaction".to_owned()),
                (None, _) => None,
            };
        }
        if self.user.is_empty() {
            self.user.clone_from(&server.user);
        }
        self.pinned = server.pinned.as_deref().map(Pinned::of);
        self.pinned_idle_seconds = server.pinned.as_deref().and_then(|pin| since(pin.idle_since));
        self.client = client.map(Client::of);
        self
    }

    /// Whether the pool's user may not see what the backend does.
    pub(super) fn is_hidden(&self) -> bool {
        self.key.is_none()
    }

    /// Whether the backend waits until its client, or Weir for the client, reads more of a result.
    pub(super) fn is_unread(&self) -> bool {
        self.waits_for.as_deref() == Some("Client: ClientWrite")
    }

    /// Whether the backend waits until a synchronous standby confirms its commit. It keeps its locks meanwhile.
    pub(super) fn is_unconfirmed(&self) -> bool {
        self.waits_for.as_deref() == Some("IPC: SyncRep")
    }

    /// Whether the backend waits for the lock of a table. Of a row, whoever is first in the queue waits for the holder anew.
    pub(super) fn waits_for_table(&self) -> bool {
        self.waits_for.as_deref() == Some("Lock: relation")
    }

    /// Whether the backend does nothing in an open transaction.
    pub(super) fn idles(&self) -> bool {
        self.state.as_deref().is_some_and(|state| state.starts_with("idle in transaction"))
    }

    /// How long the backend has done what it does, as far as that is known.
    pub(super) fn seconds(&self) -> f64 {
        self.state_seconds.or(self.transaction_seconds).unwrap_or(0.0)
    }

    /// How long the backend's transaction has lasted, or what it does.
    pub(super) fn lasts(&self) -> f64 {
        let idle = self.pinned_idle_seconds.unwrap_or(0.0);
        self.transaction_seconds.unwrap_or(idle).max(if self.state.as_deref() == Some("idle") {
            0.0
        } else {
            self.seconds()
        })
    }

    /// Who the backend works for: the client, or what the server knows of it.
    pub(super) fn owner(&self) -> String {
        let (application, user, address) = match &self.client {
            Some(client) => (&client.application_name, &client.user, Some(client.address.as_str())),
            None => (&self.application_name, &self.user, self.address.as_deref()),
        };
        let name = if application.is_empty() { "a client".to_owned() } else { quoted(application) };
        let user = if user.is_empty() { String::new() } else { format!(" of {}", identifier(user)) };
        let address = address.map(|address| format!(" at {address}")).unwrap_or_default();
        format!("{name}{user}{address}")
    }
}
