//! See `tieline_fuzz::framing`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tieline_fuzz::framing::target(data));
