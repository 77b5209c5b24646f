//! The limits of a turn: what it may cost, and for how long the agent may be silent.

use serde::Serialize;
use serde_json::Number;
use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tieline::rpc::sync::Lock;
use tieline::schema::Update;
use tokio::time::Instant;

/// What a turn may cost. The agent's own word counts for tokens and money.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Budget {
    /// Money, in the currency of the agent.
    pub cost: Option<f64>,
    /// Tokens in the context.
    pub tokens: Option<u64>,
    /// Tool calls.
    pub tool_calls: Option<u64>,
}

/// A limit that was reached.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reached {
    /// The name of its flag, without the dashes.
    pub name: &'static str,
    /// What was allowed.
    pub limit: Number,
    /// What it was when that was seen.
    pub used: Number,
    /// In what it is measured.
    pub unit: String,
}

impl Reached {
    /// A time that passed.
    pub(crate) fn time(name: &'static str, limit: Duration) -> Self {
        let seconds = if limit.subsec_nanos() == 0 {
            limit.as_secs().into()
        } else {
            money((limit.as_secs_f64() * 1e3).round() / 1e3)
        };
        Self { name, limit: seconds.clone(), used: seconds, unit: "s".into() }
    }
}

impl fmt::Display for Reached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, limit, used, unit } = self;
        match *name {
            "timeout" => write!(f, "stopped after {limit} s (--timeout)"),
            "idle-timeout" => write!(f, "no message from the agent for {limit} s (--idle-timeout)"),
            _ => write!(f, "the budget is used up: {used} {unit}, allowed are {limit} (--{name})"),
        }
    }
}

fn money(amount: f64) -> Number {
    Number::from_f64(amount).unwrap_or_else(|| 0.into())
}

/// Counts what a turn costs.
#[derive(Debug, Default)]
pub(super) struct Meter {
    budget: Budget,
    /// What the session had cost before the turn.
    before: f64,
    /// What it had cost when that was told last.
    total: f64,
    cost: Option<f64>,
    tokens: bool,
    calls: HashSet<String>,
}

impl Meter {
    pub(super) fn new(budget: Budget) -> Self {
        Self { budget, ..Self::default() }
    }

    /// True if what the session cost so far matters.
    pub(super) fn minds_cost(&self) -> bool {
        self.budget.cost.is_some()
    }

    /// The session had cost so much before.
    pub(super) fn had_cost(&mut self, amount: f64) {
        self.before = amount;
    }

    /// The next turn has the whole budget again.
    pub(super) fn next_turn(&mut self) {
        let before = if self.cost.is_some() { self.total } else { self.before };
        *self = Self { budget: self.budget, before, ..Self::default() };
    }

    /// Hears what is told of the time before the turn.
    pub(super) fn before(&mut self, update: &Update) {
        if let Update::Usage(usage) = update
            && let Some(cost) = usage.cost.set()
        {
            self.before = cost.amount;
        }
    }

    /// Hears what is told in the turn, or behind it. Says which limit that breaks.
    pub(super) fn take(&mut self, update: &Update) -> Option<Reached> {
        match update {
            Update::Usage(usage) => {
                self.tokens = true;
                if let Some(cost) = usage.cost.set() {
                    // The session's cost is told as a whole; an agent that was started again may have begun anew.
                    let spent = if cost.amount < self.before { cost.amount } else { cost.amount - self.before };
                    (self.cost, self.total) = (Some(spent), cost.amount);
                    if let Some(limit) = self.budget.cost.filter(|limit| spent > *limit) {
                        let (limit, used) = (money(limit), money(spent));
                        return Some(Reached { name: "max-cost", limit, used, unit: cost.currency.clone() });
                    }
                }
                let limit = self.budget.tokens.filter(|limit| usage.used > *limit)?;
                let (limit, used) = (limit.into(), usage.used.into());
                Some(Reached { name: "max-tokens", limit, used, unit: "tokens".into() })
            }
            Update::ToolCall(call) => {
                let limit = self.budget.tool_calls?;
                let most = usize::try_from(limit).unwrap_or(usize::MAX);
                if self.calls.len() <= most {
                    self.calls.insert(call.tool_call_id.clone());
                }
                (self.calls.len() > most).then(|| Reached {
                    name: "max-tool-calls",
                    limit: limit.into(),
                    used: self.calls.len().into(),
                    unit: "tool calls".into(),
                })
            }
            _ => None,
        }
    }

    /// The limits that could not be minded, because the agent never told.
    pub(super) fn unminded(&self) -> Vec<String> {
        let cost = (self.budget.cost.is_some() && self.cost.is_none()).then_some(("max-cost", "what it costs"));
        let tokens =
            (self.budget.tokens.is_some() && !self.tokens).then_some(("max-tokens", "how many tokens it used"));
        let told = |(flag, what)| format!("--{flag} was not minded: the agent did not tell {what}");
        cost.into_iter().chain(tokens).map(told).collect()
    }
}

/// When the agent last gave a sign. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct IdleTimer(Arc<Mutex<Signed>>);

#[derive(Debug)]
struct Signed {
    last: Instant,
    /// How many of its requests wait for us.
    waits: u32,
}

impl Default for IdleTimer {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Signed { last: Instant::now(), waits: 0 })))
    }
}

impl IdleTimer {
    fn lock(&self) -> MutexGuard<'_, Signed> {
        self.0.locked()
    }

    /// It gave one.
    pub(super) fn seen(&self) {
        self.lock().last = Instant::now();
    }

    /// While this lives, the agent waits for us, and not we for it.
    pub(super) fn waits(&self) -> Waits {
        self.lock().waits += 1;
        Waits(self.clone())
    }

    /// Waits until it has been silent for this long.
    pub(crate) async fn silent(&self, limit: Duration) {
        loop {
            let now = Instant::now();
            let until = {
                let signed = self.lock();
                if signed.waits > 0 { now + limit } else { signed.last + limit }
            };
            if until <= now {
                return;
            }
            tokio::time::sleep_until(until).await;
        }
    }
}

/// See [`IdleTimer::waits`].
pub(super) struct Waits(IdleTimer);

impl Drop for Waits {
    fn drop(&mut self) {
        let mut signed = self.0.lock();
        signed.waits -= 1;
        signed.last = Instant::now();
    }
}
