//! What stands before each path: whoever asks must have the role that the path needs, and what is changed is written down.

use std::net::{IpAddr, Ipv4Addr};

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::access::{Access, Caller, Least};
use crate::audit::Audit;

/// What one path needs.
#[derive(Clone)]
pub(super) struct Gate {
    pub(super) access: Access,
    pub(super) audit: Audit,
    /// To read there.
    pub(super) reads: Least,
    /// To change something there.
    pub(super) changes: Least,
}

/// Lets a request pass, or refuses it.
pub(super) async fn pass(State(gate): State<Gate>, request: Request, next: Next) -> Response {
    let reads = request.method().is_safe();
    let least = if reads { gate.reads } else { gate.changes };
    let who = gate.access.who(request.headers());
    let admitted = least.admits(who.as_ref());
    let noted = !reads && least != Least::Anyone;
    let name = who.and_then(|who| who.name);
    let doing = noted.then(|| gate.audit.begin(name, address(&request), request.method(), request.uri()));
    let response = match admitted {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    };
    if let Some(doing) = doing {
        doing.ends(response.status());
    }
    response
}

fn address(request: &Request) -> IpAddr {
    let caller = request.extensions().get::<Caller>();
    caller.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |Caller(address)| address.ip())
}
