//! See `tieline_fuzz::v2`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tieline_fuzz::v2::target(data));
