//! Bodies of a client's password messages.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::run("client_login", data));
