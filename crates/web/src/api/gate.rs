//! The check before each path: the sender must have the role that the path needs; changes are recorded in the audit
//! log.
//!
//! A body is read only from a client that may send it, with a timeout; where no login is needed, as to log in, its
//! limit is smaller.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use axum::body::{Body, HttpBody, to_bytes};
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::time::timeout;
use weir_config::WebRole;
use weir_http::{Access, ApiError, Caller, Reader, RequiredRole, Ticket};

use crate::audit::{Audit, PendingEntry};

use super::params::author;

/// What one path needs.
#[derive(Clone)]
pub(super) struct Gate {
    pub(super) access: Access,
    pub(super) audit: Audit,
    /// The role for reading.
    pub(super) reads: RequiredRole,
    /// The role for changes.
    pub(super) changes: RequiredRole,
    /// How long the body may take.
    pub(super) body_timeout: Duration,
}

/// The longest body, in bytes.
pub(super) const MAX_BODY: usize = 64 << 10;
/// The longest body of a request that needs no login, in bytes.
const MAX_BODY_WITHOUT_LOGIN: usize = 16 << 10;

/// Lets a request pass, or refuses it.
pub(super) async fn pass(State(gate): State<Gate>, request: Request, next: Next) -> Response {
    let reads = request.method().is_safe();
    let required = if reads { gate.reads } else { gate.changes };
    let who = gate.access.who(request.headers());
    let admitted = required.admits(who.as_ref());
    let noted = !reads && required != RequiredRole::Anyone;
    let pending = noted.then(|| {
        let pending = gate.audit.begin(address(&request), request.method(), request.uri());
        match &who {
            Some(who) => pending.by(who.name.as_deref(), admitted.is_ok()),
            None => pending,
        }
    });
    let passed = match admitted {
        Ok(()) => gate.prepare(request, who.is_some() && required != RequiredRole::Anyone).await,
        Err(error) => Err(error),
    };
    let response = match passed {
        Ok(mut request) => {
            let role = who.as_ref().map_or(WebRole::Viewer, |who| who.role);
            request.extensions_mut().insert(Reader(role));
            let number = pending.as_ref().map_or(0, PendingEntry::request);
            let author = author(who.and_then(|who| who.name), address(&request), number, request.uri());
            request.extensions_mut().insert(author);
            next.run(request).await
        }
        Err(error) => error.into_response(),
    };
    if let Some(pending) = pending {
        pending.ends(response.status());
    }
    response
}

impl Gate {
    /// Reads the body, which must arrive in time. A request that has shown a login keeps its connection from here on.
    async fn prepare(&self, request: Request, known: bool) -> Result<Request, ApiError> {
        let ticket = request.extensions().get::<Ticket>().cloned();
        let most = if known { MAX_BODY } else { MAX_BODY_WITHOUT_LOGIN };
        let (head, body) = request.into_parts();
        if body.size_hint().lower() > most as u64 {
            return Err(ApiError::TooLong);
        }
        let body = timeout(self.body_timeout, to_bytes(body, most)).await.map_err(|_| ApiError::TooSlow)?;
        let body = body.map_err(|_| ApiError::Bad(format!("the body can't be read, or has more than {most} bytes")))?;
        if let Some(ticket) = ticket.filter(|_| known) {
            ticket.is_known()?;
        }
        Ok(Request::from_parts(head, Body::from(body)))
    }
}

fn address(request: &Request) -> IpAddr {
    let caller = request.extensions().get::<Caller>();
    caller.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |Caller(address)| address.ip())
}
