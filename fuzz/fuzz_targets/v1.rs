//! See `tieline_fuzz::v1`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tieline_fuzz::v1::target(data));
