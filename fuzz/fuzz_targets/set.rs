//! SET of a setting while Weir runs.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::run("set", data));
