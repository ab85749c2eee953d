//! A whole session: clients and servers that send anything.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::run("session", data));
