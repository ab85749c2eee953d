//! Replies of a server to our login.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::run("server_login", data));
