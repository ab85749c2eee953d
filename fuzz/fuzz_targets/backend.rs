//! Whole messages of a server, read and written again.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::run("backend", data));
