//! The messages of a client whose statements keep its own names on its server: in session mode, and where
//! `max_prepared_statements` is 0.
//!
//! In session mode texts pass unread; the server is cleaned whatever they held. Outside of it they are read for the state
//! that they may leave. Names on their way may still be cut, so that any Bind may be of any statement.

use weir_pgwire::tag::front;
use weir_pgwire::{Dirty, Effects, HEAD, Head};

use crate::context::StatementCounts;
use crate::expected::Expected;
use crate::link::{Link, Rewrite};
use crate::start_values;
use crate::text::Text;
use crate::undo_log::Change;

impl Link<'_, '_> {
    /// A message that is about a text, a statement or a portal. `reads` says whether texts are read. `None` for any other.
    pub(crate) fn pass_through(&mut self, message: &[u8], head: Head, reads: bool) -> Option<Rewrite> {
        Some(match head.tag {
            front::QUERY if reads => self.read_query(message, head),
            front::QUERY => {
                self.note_resets(Text::of_query(message, head));
                self.forward(Expected::Query)
            }
            front::PARSE => {
                self.count(|counts| (counts.client_parses += 1, counts.server_parses += 1));
                if message.get(HEAD) != Some(&0) {
                    // Its name stays on the server.
                    self.server.state.leave(Dirty::STATEMENTS);
                }
                if reads {
                    self.read_parse(message, head)
                } else {
                    self.note_resets(Text::of_parse(message, head));
                    self.forward(Expected::Parse)
                }
            }
            front::BIND => {
                self.count(|counts| counts.binds += 1);
                if reads {
                    self.server.bind_any();
                }
                // Its portal may have a name, by which SQL can run it.
                let may_leave = self.server.state.parsed().may_leave;
                self.forward_with(Expected::Bind, Effects { may_leave, ..Effects::NONE })
            }
            front::DESCRIBE if message.get(HEAD) == Some(&b'S') => self.forward(Expected::DescribeStatement),
            front::DESCRIBE => self.forward(Expected::DescribeRows),
            front::CLOSE => self.forward(Expected::Close),
            front::EXECUTE if reads => self.execute(message),
            front::EXECUTE => self.forward(Expected::Execute),
            front::FUNCTION_CALL if reads => self.function_call(message),
            front::FUNCTION_CALL => self.forward(Expected::FunctionCall),
            _ => return None,
        })
    }

    /// Counts messages about statements. Where `max_prepared_statements` is 0 they are not looked at as such, and not counted
    /// (PgBouncer).
    fn count<T>(&mut self, what: impl FnOnce(&mut StatementCounts) -> T) {
        if self.ctx.max_prepared > 0 {
            what(self.ctx.counts);
        }
    }

    /// The effects of a text on this server. What it resets is noted.
    fn read_text(&mut self, text: Text<'_>) -> Effects {
        let judged = text.judge(&text.head(), self.ctx, &self.server.params);
        if !judged.harmless {
            start_values::note(self.client, self.server, self.ctx.params, text.bytes());
        }
        judged.effects
    }

    /// What a text resets that is not read for anything else.
    fn note_resets(&mut self, text: Text<'_>) {
        if start_values::are_asked_for(self.client) && !text.is_harmless() {
            start_values::note(self.client, self.server, self.ctx.params, text.bytes());
        }
    }

    fn read_query(&mut self, message: &[u8], head: Head) -> Rewrite {
        let effects = self.read_text(Text::of_query(message, head));
        if self.refuses(effects) {
            return self.refuse_query(effects);
        }
        self.server.text_sent(effects);
        self.forward_with(Expected::Query, effects)
    }

    fn read_parse(&mut self, message: &[u8], head: Head) -> Rewrite {
        // It is run at once, as far as is known.
        let effects = self.read_text(Text::of_parse(message, head));
        if self.refuses(effects) {
            return self.refuse_parse(effects, Change::None);
        }
        self.server.text_sent(effects);
        self.server.state.add_parsed(effects);
        // Again when it is answered: a DISCARD ALL before it in the pipeline does not drop it.
        let may_leave = if message.get(HEAD) == Some(&0) { Dirty::NONE } else { Dirty::STATEMENTS };
        self.forward_with(Expected::Parse, Effects { may_leave, ..Effects::NONE })
    }
}
