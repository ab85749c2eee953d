//! The client's unnamed statement where it is not held: it is longer than what is held, or there is no room for it.
//!
//! Owns what becomes of such a Parse, which passes to the server that the client has now, the only one that will have
//! the statement. Only the beginning of the text is here to be read: a statement of the client's that is named there is
//! named in the server's words once and for all. Of a statement that is held, that is done with each Bind (`naming`).

use weir_pgwire::sql::Verb;
use weir_pgwire::{Effects, HEAD, Head, put_front};

use crate::client::Unnamed;
use crate::expected::Expected;
use crate::judged::naming_in;
use crate::link::{Link, Rewrite};
use crate::long_text::SEARCHED;
use crate::sql_names::renamed;
use crate::stop::StopReason;
use crate::undo_log::{RefusedFor, Subject};

/// How many bytes of the Parse of an unnamed statement must be there, where it is not held as a whole: all of a short
/// one.
pub(crate) const BEGINNING: usize = HEAD + 1 + SEARCHED + 1;

/// A DEALLOCATE is carried out by us, when it is bound, so that it must be held.
const NO_ROOM: &str = "a prepared statement for which there is no memory";

impl Link<'_, '_> {
    /// The client's unnamed statement will exist only on the server that it has now.
    pub(crate) fn stream_unnamed(&mut self, message: &[u8], head: Head) -> Result<Rewrite, StopReason> {
        let (text, cut) = beginning(message);
        let mut edited = None;
        if let Some(naming) = naming_in(text, cut) {
            self.must_be_settled(Subject::Name(&naming.name))?;
            let is_ours = naming.verb == Verb::Deallocate && self.given(&naming.name).is_some();
            if is_ours || naming.verb == Verb::DropAll {
                // A Parse drops the statement before it, whether it succeeds or not.
                self.change_unnamed(Expected::LocalForget, Unnamed::None);
                self.server.unnamed = None;
                return Ok(self.fail(RefusedFor::Limit(NO_ROOM)));
            }
            edited = self.called_by_server(&naming)?.map(|(called, _)| renamed(text, &naming, &called));
        }
        self.change_unnamed(Expected::ParseUnnamed, Unnamed::Streamed);
        self.fill_unnamed_slot(Effects::UNKNOWN);
        let Some(edited) = edited else { return Ok(Rewrite::Unchanged) };
        let before = HEAD + 1 + text.len();
        put_front::parse_head(self.ctx.scratch, b"", edited.len() + head.total() - before);
        self.ctx.scratch.extend_from_slice(&edited);
        Ok(Rewrite::After(before))
    }
}

/// The beginning of the text in the Parse of an unnamed statement, and whether the text continues. However its bytes
/// arrive, it is the same part.
fn beginning(message: &[u8]) -> (&[u8], bool) {
    let body = message.get(HEAD + 1..).unwrap_or_default();
    let read = &body[..body.len().min(SEARCHED + 1)];
    match read.iter().position(|byte| *byte == 0) {
        Some(end) => (&read[..end], false),
        None => (&read[..read.len().min(SEARCHED)], true),
    }
}
