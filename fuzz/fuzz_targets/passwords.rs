//! Passwords and md5 answers.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::run("passwords", data));
