//! See `tieline_fuzz::transcript`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tieline_fuzz::transcript::target(data));
