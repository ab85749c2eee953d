//! The messages of a client whose statements keep its own names on its server: in session mode, and where
//! `max_prepared_statements` is 0.
//!
//! In session mode texts pass unread; the server is cleaned whatever they held. Outside of it they are read for the
//! state that they may leave. Names on their way may still be cut, so that any Bind may be of any statement.

use weir_pgwire::tag::front;
use weir_pgwire::{Dirty, Effects, HEAD, Head, frontend, put_front};

use crate::context::StatementMessageCounts;
use crate::expected::Expected;
use crate::judged::Question;
use crate::judged::reset_of;
use crate::link::{Link, Rewrite};
use crate::start_values;
use crate::stop::StopReason;
use crate::text::Text;
use crate::undo_log::Change;

impl Link<'_, '_> {
    /// A message that is about a text, a statement or a portal. `reads` says whether texts are read. `None` for any
    /// other.
    pub(crate) fn pass_through(
        &mut self,
        message: &[u8],
        head: Head,
        reads: bool,
    ) -> Option<Result<Rewrite, StopReason>> {
        Some(Ok(match head.tag {
            front::QUERY if reads => return Some(self.read_query(message, head)),
            front::QUERY => {
                let text = Text::of_query(message, head);
                let asked = start_values::are_asked_for(self.client) && !text.is_harmless();
                return Some(self.query_with_resets(message, head, text, Effects::NONE, asked));
            }
            front::PARSE => {
                self.count(|counts| (counts.client_parses += 1, counts.server_parses += 1));
                if message.get(HEAD) != Some(&0) {
                    // The statement's name stays on the server.
                    self.server.state.leave(Dirty::STATEMENTS);
                }
                if reads {
                    match self.read_parse(message, head) {
                        Ok(rewrite) => rewrite,
                        Err(stop) => return Some(Err(stop)),
                    }
                } else {
                    self.parse_reset(message, head, Effects::NONE)
                }
            }
            front::BIND => {
                self.count(|counts| counts.binds += 1);
                if reads {
                    self.server.bind_any();
                }
                // The portal may have a name, by which SQL can run it.
                let may_leave = self.server.state.parsed().may_leave;
                self.forward_with(Expected::Bind, Effects { may_leave, ..Effects::NONE })
            }
            front::DESCRIBE if message.get(HEAD) == Some(&b'S') => self.forward(Expected::DescribeStatement),
            front::DESCRIBE => self.forward(Expected::DescribeRows),
            front::CLOSE => self.forward(Expected::Close),
            front::EXECUTE if reads => self.execute(message),
            front::EXECUTE => {
                self.server.executes();
                self.forward(Expected::Execute)
            }
            front::FUNCTION_CALL if reads => self.any_function_call(message),
            front::FUNCTION_CALL => self.forward(Expected::FunctionCall),
            _ => return None,
        }))
    }

    /// Counts messages about statements. Where `max_prepared_statements` is 0 they are not looked at as such, and not
    /// counted (PgBouncer).
    fn count<T>(&mut self, what: impl FnOnce(&mut StatementMessageCounts) -> T) {
        if self.ctx.rules.max_prepared > 0 {
            what(self.ctx.counts);
        }
    }

    /// Forwards a query. What it resets of that which the client asked for returns to that; its text is read for it
    /// where `reads`.
    fn query_with_resets(
        &mut self,
        message: &[u8],
        head: Head,
        text: Text<'_>,
        effects: Effects,
        reads: bool,
    ) -> Result<Rewrite, StopReason> {
        let edited = if reads && start_values::may_be_reset(self.client, text.bytes()) {
            self.edit_query(text.bytes(), !text.is_whole(), false)?
        } else {
            None
        };
        self.server.text_sent(effects);
        self.server.pending.request_with(Expected::Query, effects);
        let before = HEAD + text.bytes().len();
        Ok(edited.map_or(Rewrite::Unchanged, |edited| self.send_edited(message, head, before, &edited)))
    }

    /// Forwards a Parse. The same for its text.
    fn parse_reset(&mut self, message: &[u8], head: Head, effects: Effects) -> Rewrite {
        let text = Text::of_parse(message, head);
        if start_values::are_asked_for(self.client)
            && !text.is_harmless()
            && let Ok(parse) = frontend::parse(&message[HEAD..])
            && text.is_whole()
        {
            let reset = reset_of(parse.text);
            if let Some(command) = self.local_reset(reset.as_ref()) {
                let types = parse.rest.get(parse.text.len()..).unwrap_or_default();
                put_front::parse(self.ctx.scratch, parse.name, &[command.as_bytes(), types].concat());
                self.server.pending.request_with(Expected::Parse, effects);
                return Rewrite::Replaced;
            }
            start_values::note(self.client, self.server, self.ctx.params, reset.as_ref());
        }
        self.forward_with(Expected::Parse, effects)
    }

    fn read_query(&mut self, message: &[u8], head: Head) -> Result<Rewrite, StopReason> {
        let text = Text::of_query(message, head);
        let judged = text.judge(&text.head(), self.ctx, &self.server.params);
        if self.refuses(judged.effects) {
            return Ok(self.refuse_query(judged.effects));
        }
        self.may_ask_for_values(Question::of(judged.effects, text.searched().0))?;
        let effects = self.note_custom(judged.effects, text.searched());
        self.count_text(text, effects);
        self.query_with_resets(message, head, text, effects, !judged.harmless)
    }

    fn read_parse(&mut self, message: &[u8], head: Head) -> Result<Rewrite, StopReason> {
        // The text is run at once, as far as is known.
        let text = Text::of_parse(message, head);
        let effects = text.judge(&text.head(), self.ctx, &self.server.params).effects;
        if self.refuses(effects) {
            return Ok(self.refuse_parse(effects, Change::None));
        }
        self.may_ask_for_values(Question::of(effects, text.bytes()))?;
        self.count_text(text, effects);
        self.server.text_sent(effects);
        self.server.state.add_parsed(effects);
        // Again when it is answered: a DISCARD ALL before it in the pipeline does not drop it.
        let may_leave = if message.get(HEAD) == Some(&0) { Dirty::NONE } else { Dirty::STATEMENTS };
        Ok(self.parse_reset(message, head, Effects { may_leave, ..Effects::NONE }))
    }
}
