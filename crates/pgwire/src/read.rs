//! A cursor over one message's body.
//!
//! Every method returns [`Malformed`] instead of reading past the end; nothing here indexes or allocates.

use std::ffi::CStr;

use crate::frame::Malformed;

/// The unread part of a body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    left: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(body: &'a [u8]) -> Self {
        Reader { left: body }
    }

    pub(crate) fn left(&self) -> &'a [u8] {
        self.left
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (head, left) = self.left.split_first_chunk::<N>().ok_or(SHORT)?;
        self.left = left;
        Ok(*head)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        self.array().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn i32(&mut self) -> Result<i32, Malformed> {
        self.array().map(i32::from_be_bytes)
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (head, left) = self.left.split_at_checked(count).ok_or(SHORT)?;
        self.left = left;
        Ok(head)
    }

    /// `count` items of `size` bytes each; can't overflow, as a body is far shorter than the address space.
    pub(crate) fn items(&mut self, count: u16, size: usize) -> Result<&'a [u8], Malformed> {
        self.take(usize::from(count) * size)
    }

    /// A string without its NUL.
    pub(crate) fn cstr(&mut self) -> Result<&'a [u8], Malformed> {
        let (string, left) = split_cstr(self.left).ok_or(UNENDED)?;
        self.left = left;
        Ok(string)
    }

    /// A length and as many bytes; -1 means NULL.
    pub(crate) fn value(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        match self.i32()? {
            -1 => Ok(None),
            length => self.take(usize::try_from(length).map_err(|_| SHORT)?).map(Some),
        }
    }

    /// Checks that the whole body has been read.
    pub(crate) fn end(&self) -> Result<(), Malformed> {
        if self.left.is_empty() { Ok(()) } else { Err(Malformed("invalid message format: bytes after its end")) }
    }
}

const SHORT: Malformed = Malformed("insufficient data left in message");
const UNENDED: Malformed = Malformed("invalid string in message: it does not end");

/// The string at the front of `bytes` without its NUL, and what follows the NUL; `None` if there is no NUL.
#[inline]
pub(crate) fn split_cstr(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let string = CStr::from_bytes_until_nul(bytes).ok()?.to_bytes();
    bytes.get(string.len() + 1..).map(|left| (string, left))
}

/// Strings up to an empty one or the end, as in SASL's list of mechanisms. The bytes have been checked before; on
/// unchecked ones the iterator just ends early.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Strings<'a> {
    left: &'a [u8],
}

impl<'a> Strings<'a> {
    pub(crate) fn new(left: &'a [u8]) -> Self {
        Strings { left }
    }
}

impl<'a> Iterator for Strings<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (string, left) = split_cstr(self.left).filter(|(string, _)| !string.is_empty())?;
        self.left = left;
        Some(string)
    }
}
