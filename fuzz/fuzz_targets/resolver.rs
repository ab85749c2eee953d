//! resolv.conf, the hosts file, and names.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::run("resolver", data));
