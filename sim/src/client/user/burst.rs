//! A burst: sends messages without waiting, then waits for all replies.

use weir_base::{OnDirty, Span};

use super::{CANCEL, Client, DEADLINE, Exit, Phase, THINK, WRITE};
use crate::client::Topic;
use crate::client::reference::Parameters;
use crate::client::script::{Burst, Script};
use crate::context::{Context, Event};
use crate::postgres::core::Transaction;

impl Client {
    pub(super) fn think(&mut self, ctx: &mut Context) {
        self.phase = Phase::Idle;
        let pause = self.rng.span(1, self.longest_think_time);
        ctx.wake(pause, self.owner(), THINK);
    }

    /// Starts the next burst, or ends the session.
    pub(super) fn next(&mut self, ctx: &mut Context) {
        if self.bursts == 0 && (self.reference.transaction() == Transaction::Idle || !self.calm) {
            let exit = self.draw_exit();
            return self.leave(ctx, exit);
        }
        self.bursts = self.bursts.saturating_sub(1);
        let mut script = Script {
            rng: &mut self.rng,
            habits: &self.habits,
            rules: &ctx.rules,
            client: self.identity.number,
            tokens: &mut self.tokens,
            session: self.sessions_left,
            core: self.reference.core(),
        };
        let Burst { mut stages, sleeps, forgets } = script.burst(self.bursts == 0);
        stages.reverse();
        self.stages = stages;
        self.forgets = forgets;
        self.reference.parameters = if forgets { Parameters::Adopted } else { Parameters::Compared };
        self.phase = Phase::Busy;
        self.set_deadline(ctx, sleeps);
        if sleeps > 0 && self.rng.chance(self.habits.cancels) {
            let delay = self.rng.span(1, sleeps * 2);
            ctx.wake(delay, self.owner(), CANCEL);
            // One more, while the first one is under way or soon after it.
            if matches!(self.identity.topic, Topic::Cancels { .. }) && self.rng.chance(500) {
                let later = self.rng.span(1, sleeps);
                ctx.wake(Span::from_micros(delay.micros() + later.micros()), self.owner(), CANCEL);
            }
        }
        self.send_stage(ctx);
    }

    pub(super) fn set_deadline(&mut self, ctx: &mut Context, sleeps: u64) {
        self.deadline += 1;
        self.began = ctx.now();
        let latest = ctx.now() + ctx.rules.answer_timeout + Span::from_micros(sleeps);
        ctx.queue.at(latest, Event::Wake(self.owner(), DEADLINE + self.deadline));
    }

    fn send_stage(&mut self, ctx: &mut Context) {
        let Some(messages) = self.stages.pop() else { return };
        let mut bytes = Vec::new();
        for message in messages {
            message.put(&mut bytes);
            if let Some(end) = self.end {
                ctx.sent(end, &message);
            }
            ctx.counts.messages += 1;
            self.reference.sent(message);
        }
        if !self.calm && self.rng.chance(self.early_exits) && self.rng.chance(200) {
            return self.leave_within(ctx, &bytes);
        }
        if self.rng.chance(self.split_writes) && !bytes.is_empty() {
            self.unwritten = bytes.split_off(self.rng.below(bytes.len() as u64) as usize);
            let pause = self.rng.span(10, 300_000);
            ctx.wake(pause, self.owner(), WRITE);
        }
        self.write(ctx, &bytes);
        self.settle(ctx);
    }

    pub(super) fn write_rest(&mut self, ctx: &mut Context) {
        let bytes = std::mem::take(&mut self.unwritten);
        self.write(ctx, &bytes);
        self.settle(ctx);
    }

    /// Sends part or all of the bytes, then disconnects.
    fn leave_within(&mut self, ctx: &mut Context, bytes: &[u8]) {
        let sent = self.rng.between(0, bytes.len() as u64) as usize;
        self.write(ctx, &bytes[..sent]);
        let exit = *self.rng.pick(&[Exit::Close, Exit::Reset, Exit::HalfClose]);
        self.leave(ctx, exit);
    }

    fn draw_exit(&mut self) -> Exit {
        if self.calm || !self.rng.chance(self.early_exits) {
            return Exit::Terminate;
        }
        *self.rng.pick(&[Exit::Close, Exit::Reset, Exit::HalfClose])
    }

    /// After bytes were handled: continues or ends the burst if all replies have arrived.
    pub(super) fn settle(&mut self, ctx: &mut Context) {
        if self.phase != Phase::Busy || !self.unwritten.is_empty() || !self.reference.has_all_replies() {
            return;
        }
        if !self.stages.is_empty() {
            return self.send_stage(ctx);
        }
        if self.cancellers.is_empty() {
            self.cancelling = false;
        }
        if let Some(violation) = self.reference.compare_parameters() {
            ctx.violated(violation.checker, || violation.what);
        }
        self.reference.parameters = Parameters::Compared;
        let released = ctx.rules.pooled && !ctx.rules.mode.keeps_state();
        if released && self.reference.transaction() == Transaction::Idle && ctx.rules.on_dirty != OnDirty::Keep {
            self.reference.forget_leftovers();
        }
        self.think(ctx);
    }
}
