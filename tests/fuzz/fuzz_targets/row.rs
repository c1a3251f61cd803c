#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| curfew_fuzz::row(bytes));
