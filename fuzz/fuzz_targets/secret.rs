//! Secrets as pg_authid stores them.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::run("secret", data));
