//! Points in time: milliseconds in the file, RFC 3339 in UTC for people and peers.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const DAY: i64 = 86_400_000;

/// A point in time, in milliseconds since 1970. Shown as RFC 3339 in UTC. Nothing is ordered by it: clocks jump.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub i64);

impl Time {
    /// Now, by the clock of the machine.
    pub fn now() -> Self {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => Self(millis(since)),
            Err(before) => Self(-millis(before.duration())),
        }
    }

    /// The point this long before.
    #[must_use]
    pub fn before(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(millis(duration)))
    }

    /// How long ago it was, as people say it: `3 min`, `yesterday`, `12 Nov`, and with its year if that is another one.
    pub fn ago(self, now: Self) -> String {
        const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
        match now.0.saturating_sub(self.0) / 60_000 {
            ..1 => return "just now".to_owned(),
            minutes @ 1..60 => return format!("{minutes} min"),
            minutes @ 60..1440 => return format!("{} h", minutes / 60),
            1440..2880 => return "yesterday".to_owned(),
            _ => {}
        }
        let (year, month, day) = civil(self.0.div_euclid(DAY));
        let month = usize::try_from(month - 1).ok().and_then(|month| MONTHS.get(month)).unwrap_or(&"");
        let year = if year == civil(now.0.div_euclid(DAY)).0 { String::new() } else { format!(" {year}") };
        format!("{day} {month}{year}")
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = civil(self.0.div_euclid(DAY));
        let ms = self.0.rem_euclid(DAY);
        let (hour, minute, second, ms) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60, ms % 1000);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
    }
}

/// Year, month and day of a day counted from 1970. Years begin in March here, so that the leap day comes last.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_as_rfc_3339() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_800_000, "2000-03-01T00:00:00.000Z"),
            (1_709_208_000_123, "2024-02-29T12:00:00.123Z"),
            (1_798_761_599_999, "2026-12-31T23:59:59.999Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(Time(ms).to_string(), text);
        }
        let now = Time(1_798_761_599_999);
        for (minutes, text) in [
            (-5, "just now"),
            (0, "just now"),
            (3, "3 min"),
            (61, "1 h"),
            (1500, "yesterday"),
            (2880, "29 Dec"),
            (1440 * 365, "31 Dec 2025"),
        ] {
            assert_eq!(Time(now.0 - minutes * 60_000).ago(now), text);
        }
        assert_eq!(Time(5000).before(Duration::from_secs(2)), Time(3000));
        assert!(Time::now() > Time(1_700_000_000_000));
    }
}
