//! A JSON cursor that can rewind, and an escaper that writes straight into a buffer.
