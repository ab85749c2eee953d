//! A certificate from a peer that is not trusted.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::run("certificate", data));
