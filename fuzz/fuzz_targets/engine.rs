//! A whole engine: clients and servers that say anything.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::run("engine", data));
