//! `properties::trust` for bytes of the fuzzer's own.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| properties::trust(data));
