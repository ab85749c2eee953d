//! The fuzzer's bytes as a tape from which decisions are read. An exhausted tape returns zeros, so every input is
//! valid.

/// Bytes that are read once, from the front.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tape<'a> {
    rest: &'a [u8],
}

impl<'a> Tape<'a> {
    pub(crate) fn new(rest: &'a [u8]) -> Self {
        Tape { rest }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next byte.
    pub(crate) fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or_default()
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::from(self.byte()) % end.max(1)
    }

    pub(crate) fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// One of several.
    pub(crate) fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// The next `count` bytes, or as many as are left.
    pub(crate) fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(count.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    /// A length and that many bytes.
    pub(crate) fn some(&mut self) -> &'a [u8] {
        let count = usize::from(self.byte());
        self.take(count)
    }

    /// All remaining bytes.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        self.take(usize::MAX)
    }
}

/// Pieces of `bytes`; their lengths cycle through `cuts`.
pub(crate) fn pieces<'b>(mut bytes: &'b [u8], cuts: &[usize]) -> Vec<&'b [u8]> {
    let mut pieces = Vec::new();
    let mut sizes = cuts.iter().cycle();
    while !bytes.is_empty() {
        let size = sizes.next().map_or(bytes.len(), |size| (*size).clamp(1, bytes.len()));
        let (piece, rest) = bytes.split_at(size);
        pieces.push(piece);
        bytes = rest;
    }
    pieces
}
