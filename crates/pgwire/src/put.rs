//! Appends messages to a buffer: the frame around a body, and the kinds of fields in it.
//!
//! The frame is correct for all contents: strings are cut at their first NUL, lists at the largest count, and a length
//! beyond 32 bits is written as the largest one, which every reader refuses.

use std::ffi::CStr;

/// A message; `body` appends its body.
pub(crate) fn message(buf: &mut Vec<u8>, tag: u8, body: impl FnOnce(&mut Vec<u8>)) {
    buf.push(tag);
    untagged(buf, body);
}

/// A message without a tag, as the first packet is.
pub(crate) fn untagged(buf: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let at = buf.len();
    buf.extend_from_slice(&[0; 4]);
    body(buf);
    let length = length(buf.len() - at);
    if let Some(field) = buf[at..].first_chunk_mut::<4>() {
        *field = length;
    }
}

/// The head of a message whose body, of `body` bytes, is appended or streamed by the caller.
pub(crate) fn head(buf: &mut Vec<u8>, tag: u8, body: usize) {
    buf.push(tag);
    buf.extend_from_slice(&length(body.saturating_add(4)));
}

/// A message without a body.
pub(crate) fn bare(buf: &mut Vec<u8>, tag: u8) {
    buf.extend_from_slice(&[tag, 0, 0, 0, 4]);
}

pub(crate) fn u16(buf: &mut Vec<u8>, value: u16) {
    buf.extend_from_slice(&value.to_be_bytes());
}

pub(crate) fn u32(buf: &mut Vec<u8>, value: u32) {
    buf.extend_from_slice(&value.to_be_bytes());
}

pub(crate) fn i32(buf: &mut Vec<u8>, value: i32) {
    buf.extend_from_slice(&value.to_be_bytes());
}

/// A string and its NUL.
pub(crate) fn cstr(buf: &mut Vec<u8>, string: &[u8]) {
    cut_cstr(buf, until_nul(string));
}

/// A string that [`until_nul`] has cut, and its NUL.
pub(crate) fn cut_cstr(buf: &mut Vec<u8>, string: &[u8]) {
    buf.extend_from_slice(string);
    buf.push(0);
}

/// A string up to its first NUL.
pub(crate) fn until_nul(string: &[u8]) -> &[u8] {
    // Without an early end the search compares many bytes at a time. Hardly any string has a NUL.
    let has_nul = string.iter().fold(false, |found, byte| found | (*byte == 0));
    if has_nul { CStr::from_bytes_until_nul(string).map_or(string, CStr::to_bytes) } else { string }
}

/// A length and as many bytes; -1 for NULL.
pub(crate) fn value(buf: &mut Vec<u8>, value: Option<&[u8]>) {
    match value {
        None => i32(buf, -1),
        Some(bytes) => {
            buf.extend_from_slice(&length(bytes.len()));
            buf.extend_from_slice(bytes);
        }
    }
}

/// A 16-bit count, then the items.
pub(crate) fn list<T>(buf: &mut Vec<u8>, items: impl IntoIterator<Item = T>, mut put: impl FnMut(&mut Vec<u8>, T)) {
    let at = buf.len();
    u16(buf, 0);
    let mut count: u16 = 0;
    for item in items.into_iter().take(usize::from(u16::MAX)) {
        put(buf, item);
        count += 1;
    }
    if let Some(field) = buf[at..].first_chunk_mut::<2>() {
        *field = count.to_be_bytes();
    }
}

fn length(bytes: usize) -> [u8; 4] {
    u32::try_from(bytes).unwrap_or(u32::MAX).to_be_bytes()
}
