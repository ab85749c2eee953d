//! Replies of a server to auth_query.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::run("auth_query", data));
