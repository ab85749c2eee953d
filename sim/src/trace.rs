//! What happened: always as a hash, and on demand as a transcript of the last events.
//!
//! The hash covers every event, so two runs with the same hash did the same. The transcript is kept only in a run that
//! repeats a failed one, because making its lines costs more than the run.

use std::collections::VecDeque;

use weir_base::Time;

/// How many lines of a transcript are kept.
const LINES: usize = 100_000;

/// The record of one run.
#[derive(Debug)]
pub(crate) struct Trace {
    hash: u64,
    lines: Option<VecDeque<String>>,
}

impl Trace {
    /// A record; with a transcript if asked for.
    pub(crate) fn new(transcript: bool) -> Trace {
        Trace { hash: 0xcbf2_9ce4_8422_2325, lines: transcript.then(VecDeque::new) }
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
        self.lines.is_some()
    }

    /// Adds a line, if lines are kept.
    pub(crate) fn line(&mut self, now: Time, text: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.lines {
            if lines.len() == LINES {
                lines.pop_front();
            }
            lines.push_back(format!("{:>12.6} {}", now.micros() as f64 / 1e6, text()));
        }
    }

    /// The transcript.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.iter().flatten().cloned().collect()
    }
}
