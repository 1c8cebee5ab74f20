//! `properties::harmony_stream` for bytes of the fuzzer's own.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| properties::harmony_stream(data));
