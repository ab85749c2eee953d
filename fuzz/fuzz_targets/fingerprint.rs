//! Fingerprints of texts with values of every form.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::run("fingerprint", data));
