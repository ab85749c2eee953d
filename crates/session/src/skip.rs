//! What a server skips after an error in the extended protocol has not happened.
//!
//! Owns what happens to the requests up to the next Sync: they leave the queue, their changes are undone, and what they
//! prepared or closed on the server is doubtful.

use crate::client::{Client, Unnamed};
use crate::context::Context;
use crate::expected::Expected;
use crate::server::Server;
use crate::undo_log::Change;

/// The oldest request has failed. Everything of `client` that the server skips with it is undone, newest first.
pub(crate) fn skip_to_sync(server: &mut Server, client: Option<&mut Client>, ctx: &mut Context<'_>) {
    let Server { pending, undo_log, closes, statements, unnamed, descriptions, .. } = &mut *server;
    let accepted = &mut *ctx.statements;
    let (mut failed, mut undo) = (true, Vec::new());
    pending.error(|dropped| {
        let head = std::mem::take(&mut failed);
        if dropped.changes_unnamed() {
            *unnamed = None;
        }
        if dropped.is_noted() {
            descriptions.skip();
        }
        if dropped == Expected::OwnClose {
            closes.take().into_iter().for_each(|key| statements.mark_doubtful(key));
        }
        let Some((prepares, change)) = dropped.is_logged().then(|| undo_log.take()).flatten() else { return };
        match prepares {
            Some(key) if head => {
                statements.remove(key);
                accepted.remove(key);
            }
            Some(key) => statements.mark_doubtful(key),
            None => {}
        }
        // A Parse that fails leaves no unnamed statement behind, whatever was there before.
        let change = match change {
            Change::Unnamed { .. } if head => Change::Unnamed { before: Unnamed::None },
            change => change,
        };
        undo.push(change);
    });
    // What may or may not be there is remembered, but not without end.
    server.unusable |= server.statements.len() > 2 * ctx.rules.max_prepared + 1_000;
    if let Some(client) = client {
        undo.into_iter().rev().for_each(|change| server.undo_log.undo(client, change));
    }
}
