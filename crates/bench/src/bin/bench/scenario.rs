//! The scenarios, how much work each one is, and what we want to reach in it.

use std::time::Duration;

use crate::agents;
use crate::clients;
use crate::peers::Kind;
use crate::process::Failure;

/// What one repetition measured.
pub struct Sample {
    /// CPU time of the peer per operation, all threads, in microseconds.
    pub cpu_us: f64,
    /// Wall-clock time of the whole measured part.
    pub wall: Duration,
    pub ops: usize,
    pub peak_mib: f64,
    /// Threads of the peer; only known for agents.
    pub threads: Option<usize>,
    /// Time from the prompt to the first update; only where a turn streams.
    pub first_ms: Option<f64>,
}

/// What `ours` should reach; the ratio is of CPU per operation.
#[derive(Clone, Copy)]
pub struct Target {
    pub ratio: Option<f64>,
    pub peak_mib: Option<f64>,
    pub first_ms: Option<f64>,
}

impl Target {
    const NONE: Self = Self { ratio: None, peak_mib: None, first_ms: None };

    const fn ratio(ratio: f64) -> Self {
        Self { ratio: Some(ratio), ..Self::NONE }
    }

    const fn and_peak(self, mib: f64) -> Self {
        Self { peak_mib: Some(mib), ..self }
    }

    const fn and_first(self, ms: f64) -> Self {
        Self { first_ms: Some(ms), ..self }
    }
}

/// The work of a scenario.
pub enum Work {
    Startup,
    RoundTrips { count: usize, in_flight: usize },
    Stream { count: usize, size: usize },
    Drip { count: usize, size: usize, pause_us: usize },
    BigPrompt { bytes: usize },
    Sessions { count: usize, updates: usize },
    Permission { count: usize },
    Client { count: usize, size: usize },
    Fan { count: usize, size: usize, sessions: usize },
}

pub struct Scenario {
    pub name: &'static str,
    pub what: String,
    pub work: Work,
    pub target: Target,
    /// Short scenarios need more repetitions for a steady median, and so do those that take turns with the driver:
    /// their cost depends on whether the two happen to share a core.
    pub more_reps: usize,
}

/// The name that stands for all scenarios with many client sessions.
pub const FAN: &str = "client_fan";

impl Scenario {
    /// Which side of the protocol the peer plays.
    pub fn kind(&self) -> Kind {
        match self.work {
            Work::Client { .. } | Work::Fan { .. } => Kind::Client,
            _ => Kind::Agent,
        }
    }

    /// Whether `--only NAME` means this one.
    pub fn answers_to(&self, name: &str) -> bool {
        self.name == name || (name == FAN && matches!(self.work, Work::Fan { .. }))
    }

    /// One repetition in a fresh process.
    pub fn run(&self, command: &[String], flood: &str, deadline: Duration) -> Result<Sample, Failure> {
        let agent = || agents::Agent::start(command, deadline);
        match self.work {
            Work::Startup => agents::startup(command, deadline),
            Work::RoundTrips { count, in_flight } => agent()?.round_trips(count, in_flight),
            Work::Stream { count, size } => agent()?.stream(count, size),
            Work::Drip { count, size, pause_us } => agent()?.drip(count, size, pause_us),
            Work::BigPrompt { bytes } => agent()?.big_prompt(bytes),
            Work::Sessions { count, updates } => agent()?.sessions(count, updates),
            Work::Permission { count } => agent()?.permission(count),
            Work::Client { count, size } => {
                clients::run(command, flood, &format!("stream {count} {size}"), (count, size), deadline)
            }
            Work::Fan { count, size, sessions } => {
                clients::run(command, flood, &format!("fan {count} {size} {sessions}"), (count, size), deadline)
            }
        }
    }
}

/// All scenarios. Those whose size is their point (one big prompt, a thousand sessions) do not scale.
pub fn all(scale: f64) -> Vec<Scenario> {
    #[allow(clippy::cast_sign_loss, reason = "the scale is positive")]
    let scaled = |count: usize| ((count as f64 * scale) as usize).max(100);
    let scenario = |name, what: String, work, target| Scenario { name, what, work, target, more_reps: 1 };
    let round_trips = |name, count, in_flight, what: &str, target| {
        let what = format!("{count} session/set_mode requests, {what}");
        scenario(name, what, Work::RoundTrips { count, in_flight }, target)
    };
    let stream = |name, count, size, target| {
        let what = format!("one turn of {count} message chunks of {size} bytes");
        scenario(name, what, Work::Stream { count, size }, target)
    };
    let client = |name, count, size, target| {
        let what = format!("a client takes in a flood of {count} updates of {size} bytes");
        scenario(name, what, Work::Client { count, size }, target)
    };
    let fan = |name, sessions, target| {
        // A multiple of the largest number of sessions, so that each session gets the same share.
        let count = scaled(10_000).next_multiple_of(1_000);
        let what =
            format!("a client takes in {count} updates of 64 bytes, dealt out over its open sessions: {sessions}");
        scenario(name, what, Work::Fan { count, size: 64, sessions }, target)
    };
    let (drips, asks) = (scaled(1_000), scaled(10_000));
    let startup = "from the start of the process to the answer to initialize";
    let startup = scenario("startup", startup.into(), Work::Startup, Target::ratio(1.4).and_peak(3.0));
    let permission = scenario(
        "permission",
        format!("{asks} session/request_permission calls in one turn, one at a time"),
        Work::Permission { count: asks },
        Target::ratio(7.0),
    );
    vec![
        Scenario { more_reps: 4, ..startup },
        Scenario { more_reps: 3, ..round_trips("rtt_seq", scaled(10_000), 1, "one at a time", Target::ratio(5.0)) },
        round_trips("rtt_64", scaled(50_000), 64, "64 in flight", Target::ratio(15.0)),
        stream("stream_64", scaled(100_000), 64, Target::ratio(30.0).and_first(2.0)),
        stream("stream_4k", scaled(25_000), 4096, Target::ratio(8.0).and_first(2.0)),
        scenario(
            "drip",
            format!("{drips} message chunks of 64 bytes with a pause of 1 ms after each"),
            Work::Drip { count: drips, size: 64, pause_us: 1_000 },
            Target::ratio(2.0),
        ),
        scenario(
            "big_prompt",
            "one prompt with 10 MB of text".into(),
            Work::BigPrompt { bytes: 10_000_000 },
            Target::ratio(1.3).and_peak(32.0),
        ),
        scenario(
            "sessions",
            "1000 sessions opened at once, then a turn of 3 updates in each at once".into(),
            Work::Sessions { count: 1_000, updates: 3 },
            Target::ratio(12.0),
        ),
        Scenario { more_reps: 3, ..permission },
        client("client_64", scaled(100_000), 64, Target::ratio(8.0).and_peak(8.0)),
        client("client_4k", scaled(25_000), 4096, Target::ratio(3.0)),
        fan("client_fan_1", 1, Target::NONE),
        fan("client_fan_200", 200, Target::ratio(100.0)),
        fan("client_fan_1000", 1_000, Target::NONE),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_has_its_own_name() {
        let all = all(1.0);
        for scenario in &all {
            assert_eq!(all.iter().filter(|other| other.answers_to(scenario.name)).count(), 1, "{}", scenario.name);
        }
        assert_eq!(all.iter().filter(|scenario| scenario.answers_to(FAN)).count(), 3);
    }
}
