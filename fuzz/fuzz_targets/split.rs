//! Messages of both sides, whole and in pieces.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::run("split", data));
