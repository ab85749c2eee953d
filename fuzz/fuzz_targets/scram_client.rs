//! SCRAM, our role towards servers.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::run("scram_client", data));
