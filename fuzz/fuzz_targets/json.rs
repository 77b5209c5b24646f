//! See `tieline_fuzz::json`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tieline_fuzz::json::target(data));
