//! A burst: messages that are sent without waiting, and the wait for all their answers.

use weir_base::{OnDirty, PoolMode, Span};

use super::{CANCEL, Client, Exit, PATIENCE, Phase, THINK, WRITE};
use crate::client::script::{Burst, Script};
use crate::client::shadow::Parameters;
use crate::context::{Context, Event};
use crate::postgres::core::Transaction;

impl Client {
    pub(super) fn think(&mut self, ctx: &mut Context) {
        self.phase = Phase::Idle;
        let pause = self.rng.span(1, self.slowest_thought);
        ctx.wake(pause, self.owner(), THINK);
    }

    /// Begins the next burst, or leaves.
    pub(super) fn next(&mut self, ctx: &mut Context) {
        if self.bursts == 0 && (self.shadow.transaction() == Transaction::Idle || !self.calm) {
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
            session: self.lives,
            core: self.shadow.core(),
        };
        let Burst { mut stages, sleeps, forgets } = script.burst(self.bursts == 0);
        stages.reverse();
        self.stages = stages;
        self.forgets = forgets;
        self.shadow.parameters = if forgets { Parameters::Adopted } else { Parameters::Compared };
        self.phase = Phase::Busy;
        self.set_deadline(ctx, sleeps);
        if sleeps > 0 && self.rng.chance(self.habits.cancels) {
            let delay = self.rng.span(1, sleeps * 2);
            ctx.wake(delay, self.owner(), CANCEL);
        }
        self.send_stage(ctx);
    }

    pub(super) fn set_deadline(&mut self, ctx: &mut Context, sleeps: u64) {
        self.deadline += 1;
        self.began = ctx.now();
        let latest = ctx.now() + ctx.rules.patience + Span::from_micros(sleeps);
        ctx.queue.at(latest, Event::Wake(self.owner(), PATIENCE + self.deadline));
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
            self.shadow.sent(message);
        }
        if !self.calm && self.rng.chance(self.leaves) && self.rng.chance(200) {
            return self.leave_within(ctx, &bytes);
        }
        if self.rng.chance(self.dribbles) && !bytes.is_empty() {
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

    /// Leaves in the middle of what it says, or right after it.
    fn leave_within(&mut self, ctx: &mut Context, bytes: &[u8]) {
        let said = self.rng.between(0, bytes.len() as u64) as usize;
        self.write(ctx, &bytes[..said]);
        let exit = *self.rng.pick(&[Exit::Close, Exit::Reset, Exit::HalfClose]);
        self.leave(ctx, exit);
    }

    fn draw_exit(&mut self) -> Exit {
        if self.calm || !self.rng.chance(self.leaves) {
            return Exit::Terminate;
        }
        *self.rng.pick(&[Exit::Close, Exit::Reset, Exit::HalfClose])
    }

    /// After bytes have been handled: is the burst over?
    pub(super) fn settle(&mut self, ctx: &mut Context) {
        if self.phase != Phase::Busy || !self.unwritten.is_empty() || !self.shadow.is_satisfied() {
            return;
        }
        if !self.stages.is_empty() {
            return self.send_stage(ctx);
        }
        if self.canceller.is_none() {
            self.cancelling = false;
        }
        if let Some(violation) = self.shadow.compare_parameters() {
            ctx.violated(violation.checker, || violation.what);
        }
        self.shadow.parameters = Parameters::Compared;
        let released = ctx.rules.pooled && ctx.rules.mode != PoolMode::Session;
        if released && self.shadow.transaction() == Transaction::Idle && ctx.rules.on_dirty != OnDirty::Keep {
            self.shadow.forget_leftovers();
        }
        self.think(ctx);
    }
}
