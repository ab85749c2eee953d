//! The text of a query or statement, read once: what command it is, and what it may leave on a server.
//!
//! Of a long simple query, and of any text of a pool that does not rename statements, only the beginning is looked at
//! when the message arrives; the rest is searched as it streams ([`crate::session_state`]).

use weir_pgwire::sql::{self, Judgement};
use weir_pgwire::{HEAD, Head, SqlHead};

use crate::context::Context;
use crate::judged::Kept;
use crate::long_text::SEARCHED;
use crate::params::Params;

/// How many bytes of a simple query are inspected: enough for any head that matters.
pub(crate) const QUERY_PREFIX: usize = 512;

/// A text as far as it is there.
#[derive(Clone, Copy)]
pub(crate) struct Text<'a> {
    bytes: &'a [u8],
    /// What there is of the message's body, if the text continues behind it.
    cut: Option<&'a [u8]>,
}

impl<'a> Text<'a> {
    /// A text that is there as a whole.
    pub(crate) fn whole(bytes: &'a [u8]) -> Text<'a> {
        Text { bytes, cut: None }
    }

    /// The text of a simple query, of which `message` is there. However its bytes arrive, it is whole or it is not.
    #[inline]
    pub(crate) fn of_query(message: &'a [u8], head: Head) -> Text<'a> {
        let body = &message[HEAD..];
        if head.total() <= HEAD + QUERY_PREFIX && message.len() == head.total() {
            return Text::whole(body.strip_suffix(&[0]).unwrap_or(body));
        }
        Text { bytes: &body[..body.len().min(QUERY_PREFIX)], cut: Some(body) }
    }

    /// The text of a Parse, of which `message` is there.
    pub(crate) fn of_parse(message: &'a [u8], head: Head) -> Text<'a> {
        let body = &message[HEAD..];
        let bytes = body.splitn(3, |byte| *byte == 0).nth(1).unwrap_or_default();
        Text { bytes, cut: (message.len() < head.total()).then_some(body) }
    }

    /// Whether all of the text is there.
    pub(crate) fn is_whole(self) -> bool {
        self.cut.is_none()
    }

    /// What is there of the text.
    pub(crate) fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Whether it is known at first sight that the text leaves nothing, resets nothing and names no statement: so with
    /// nearly all texts.
    #[inline]
    pub(crate) fn is_harmless(self) -> bool {
        self.cut.is_none() && sql::is_harmless(self.bytes)
    }

    /// What command the text is.
    pub(crate) fn head(self) -> SqlHead<'a> {
        if self.cut.is_none() { sql::head(self.bytes) } else { sql::head_of_prefix(self.bytes) }
    }

    /// What is known of the text, on a server whose parameters are `server`. `head` is the text's own.
    pub(crate) fn judge(self, head: &SqlHead<'_>, ctx: &Context<'_>, server: &Params) -> Judgement {
        let mut judged = match self.cut {
            None => Judgement::of(self.bytes, head),
            Some(seen) => Judgement::of_prefix(self.bytes, seen),
        };
        if !judged.harmless && ctx.rules.state.judges() {
            judged.effects.leaves = Kept::of(self.bytes, ctx.params).lost_with(server);
        }
        judged
    }

    /// The part of the text that is searched for names of statements, and whether it continues. However its bytes
    /// arrive, it is the same part.
    pub(crate) fn searched(self) -> (&'a [u8], bool) {
        match self.cut {
            None => (self.bytes, false),
            Some(body) if body.len() <= SEARCHED && body.last() == Some(&0) => (&body[..body.len() - 1], false),
            Some(body) => (&body[..body.len().min(SEARCHED)], true),
        }
    }
}
