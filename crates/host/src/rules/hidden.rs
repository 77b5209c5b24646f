//! Tells characters that a reader can't see from those that one can.

/// Whether a character is invisible, changes the direction of text, or looks like a plain space without being one.
pub fn hidden(c: char) -> bool {
    c.is_control()
        || (c != ' ' && c.is_whitespace())
        || matches!(u32::from(c),
            0xAD | 0x34F | 0x61C | 0x115F | 0x1160 | 0x17B4 | 0x17B5 | 0x180B..=0x180F
            | 0x200B..=0x200F | 0x2028..=0x202F | 0x205F..=0x206F | 0x2800 | 0x3164
            | 0xE000..=0xF8FF | 0xFE00..=0xFE0F | 0xFEFF | 0xFFA0 | 0xFFF0..=0xFFFB
            | 0x1D173..=0x1D17A | 0xE0000..=0xE0FFF | 0xF0000..)
}
