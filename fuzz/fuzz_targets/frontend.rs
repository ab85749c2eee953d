//! Whole messages of a client, read and written again.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::run("frontend", data));
