//! The frame of a message: one byte for its kind, then its length.
//!
//! Must not know the contents of any body.

use std::fmt;

pub use crate::tag;

/// Bytes of a head: the tag and the length field.
pub const HEAD: usize = 5;

/// The longest body that is accepted. PostgreSQL itself sends and accepts no message of 1 GiB or more (`MaxAllocSize`),
/// so a peer that announces a larger one is broken or hostile.
pub const MAX_BODY: u32 = 1 << 30;

/// A message's head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// The kind of the message; see [`tag`]. The same byte means different messages in the two directions.
    pub tag: u8,
    /// Length of the body, in bytes: the length field minus its own four.
    pub body: u32,
}

impl Head {
    /// Reads the head at the front of `bytes`; `None` if they are fewer than [`HEAD`].
    ///
    /// # Errors
    /// When the length field is below 4 (it counts itself) or the body is longer than [`MAX_BODY`].
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Option<Head>, Malformed> {
        let Some(&[tag, a, b, c, d]) = bytes.first_chunk::<HEAD>() else { return Ok(None) };
        match u32::from_be_bytes([a, b, c, d]).checked_sub(4) {
            Some(body) if body <= MAX_BODY => Ok(Some(Head { tag, body })),
            _ => Err(Malformed("invalid message length")),
        }
    }

    /// Length of the whole message, head and body, in bytes.
    #[inline]
    pub fn total(&self) -> usize {
        HEAD + self.body as usize
    }
}

/// A protocol violation of the peer; the text is for a log or an error message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed(pub &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Malformed {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_five_bytes_and_its_length_counts_itself() {
        assert_eq!(Head::parse(b"Z\0\0\0\x05I"), Ok(Some(Head { tag: b'Z', body: 1 })));
        assert_eq!(Head { tag: b'Z', body: 1 }.total(), 6);
        assert_eq!(Head::parse(b"S\0\0\0\x04"), Ok(Some(Head { tag: b'S', body: 0 })));
    }

    #[test]
    fn fewer_bytes_than_a_head_say_nothing_yet() {
        for end in 0..HEAD {
            assert_eq!(Head::parse(&b"Z\0\0\0\0"[..end]), Ok(None));
        }
    }

    #[test]
    fn impossible_lengths_are_refused() {
        for length in [0u32, 3, (1 << 30) + 5, 0x7fff_ffff, 0x8000_0000, u32::MAX] {
            let mut bytes = vec![b'D'];
            bytes.extend_from_slice(&length.to_be_bytes());
            assert!(Head::parse(&bytes).is_err(), "{length}");
        }
        assert_eq!(Head::parse(b"D\x40\0\0\x04"), Ok(Some(Head { tag: b'D', body: MAX_BODY })));
    }
}
