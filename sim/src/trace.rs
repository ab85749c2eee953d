//! The record of a run: always a hash, and on demand a transcript of the last events.
//!
//! The hash covers every event, so two runs with the same hash did the same. The transcript is kept only in a run that
//! repeats a failed one, because formatting its lines costs more than the run. Each line shows a message with its
//! sender and receiver, or an act of the world.

use std::collections::VecDeque;

use weir_base::Time;

/// How many lines of a transcript are kept.
const LINES: usize = 100_000;

/// How much of a run is recorded as text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Detail {
    /// Nothing.
    #[default]
    None,
    /// The messages as clients and servers see them, and acts of the world.
    Protocol,
    /// Also what passes through the engines' ports.
    Port,
}

/// The record of one run.
#[derive(Debug)]
pub(crate) struct Trace {
    hash: u64,
    detail: Detail,
    lines: VecDeque<String>,
}

impl Trace {
    /// An empty record; `detail` decides whether it keeps a transcript.
    pub(crate) fn new(detail: Detail) -> Trace {
        Trace { hash: 0xcbf2_9ce4_8422_2325, detail, lines: VecDeque::new() }
    }

    /// Mixes numbers and bytes into the hash.
    pub(crate) fn hash(&mut self, numbers: &[u64], bytes: &[u8]) {
        for number in numbers {
            self.mix(*number);
        }
        let mut chunks = bytes.chunks_exact(8);
        for chunk in &mut chunks {
            self.mix(u64::from_le_bytes(chunk.try_into().expect("eight bytes")));
        }
        for byte in chunks.remainder() {
            self.mix(u64::from(*byte));
        }
    }

    fn mix(&mut self, value: u64) {
        self.hash = (self.hash.rotate_left(5) ^ value).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    /// The hash so far.
    pub(crate) fn digest(&self) -> u64 {
        self.hash
    }

    /// Whether lines are kept.
    pub(crate) fn is_on(&self) -> bool {
        self.detail > Detail::None
    }

    /// Adds a line, if lines are kept.
    pub(crate) fn line(&mut self, now: Time, text: impl FnOnce() -> String) {
        if self.is_on() {
            self.push(now, &text());
        }
    }

    /// Adds a line about a port, if such lines are kept.
    pub(crate) fn port_line(&mut self, now: Time, text: impl FnOnce() -> String) {
        if self.detail >= Detail::Port {
            self.push(now, &text());
        }
    }

    fn push(&mut self, now: Time, text: &str) {
        if self.lines.len() == LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(format!("{:>12.6} {text}", now.micros() as f64 / 1e6));
    }

    /// The transcript.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.iter().cloned().collect()
    }
}
