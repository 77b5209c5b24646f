//! Turns samples into Markdown tables and JSON.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::Outcome;
use crate::options::Options;
use crate::peers::{BASE, FLOOR, OURS, Peer};
use crate::scenario::{Sample, Scenario, Work};
use crate::size::Size;

pub struct Report<'a> {
    pub options: &'a Options,
    pub scenarios: &'a [Scenario],
    pub peers: &'a [Peer],
    pub outcomes: &'a [Outcome],
}

/// The medians of one peer in one scenario.
struct Row<'a> {
    peer: &'a str,
    outcome: &'a Outcome,
    cpu_us: Option<f64>,
    /// The lowest of the repetitions: noise only ever adds.
    best_us: Option<f64>,
    /// How many times less CPU than the base.
    ratio: Option<f64>,
    wall_ms: Option<f64>,
    rate: Option<f64>,
    peak_mib: Option<f64>,
    threads: Option<f64>,
    first_ms: Option<f64>,
}

/// One aim and whether it was reached.
struct Verdict {
    aim: String,
    reached: Option<bool>,
}

impl Verdict {
    fn word(&self) -> &'static str {
        match self.reached {
            Some(true) => "reached",
            Some(false) => "**missed**",
            None => "not measured",
        }
    }
}

impl Report<'_> {
    /// All tables.
    pub fn markdown(&self, missing: &[String]) -> String {
        let mut out = String::from("# Benchmark\n\n");
        out.push_str(&self.conditions());
        for note in missing {
            let _ = writeln!(out, "- {note}");
        }
        for (index, scenario) in self.scenarios.iter().enumerate() {
            out.push_str(&self.table(index, scenario));
        }
        out.push_str(&self.flatness());
        out.push_str(&self.summary());
        out
    }

    fn conditions(&self) -> String {
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let load = load.split_whitespace().next().unwrap_or("?").to_owned();
        format!(
            "- {} repetitions at scale {}, medians; cores: {cores}; load at the end: {load}\n\
             - ratios: CPU per operation of `{BASE}` divided by that of the peer; more is better\n",
            self.options.reps, self.options.scale
        )
    }

    /// The rows of a scenario.
    fn rows(&self, scenario: usize) -> Vec<Row<'_>> {
        let outcomes = || self.outcomes.iter().filter(move |outcome| outcome.scenario == scenario);
        let name = |outcome: &Outcome| self.peers[outcome.peer].name.as_str();
        let base = outcomes().find(|outcome| name(outcome) == BASE).and_then(|outcome| cpu(&outcome.samples));
        outcomes()
            .map(|outcome| {
                let samples = &outcome.samples;
                let cpu_us = cpu(samples);
                Row {
                    peer: name(outcome),
                    outcome,
                    cpu_us,
                    best_us: samples.iter().map(|sample| sample.cpu_us).min_by(f64::total_cmp),
                    ratio: base.zip(cpu_us).map(|(base, own)| base / own),
                    wall_ms: median(samples.iter().map(|sample| sample.wall.as_secs_f64() * 1e3)),
                    rate: median(samples.iter().map(|sample| sample.ops as f64 / sample.wall.as_secs_f64())),
                    peak_mib: median(samples.iter().map(|sample| sample.peak_mib)),
                    threads: median(samples.iter().filter_map(|sample| sample.threads).map(|count| count as f64)),
                    first_ms: median(samples.iter().filter_map(|sample| sample.first_ms)),
                }
            })
            .collect()
    }

    fn table(&self, index: usize, scenario: &Scenario) -> String {
        let rows = self.rows(index);
        let mut out = format!("\n## {}\n\n{}.\n", scenario.name, capital(&scenario.what));
        let aims: Vec<String> = verdicts(scenario, None).into_iter().map(|verdict| verdict.aim).collect();
        if !aims.is_empty() {
            let _ = writeln!(out, "Target: {}.", aims.join(", "));
        }
        // Columns that this scenario does not measure are left out.
        let threads = rows.iter().any(|row| row.threads.is_some());
        let first = rows.iter().any(|row| row.first_ms.is_some());
        let mut head = format!("| peer | CPU us/op | best | vs {BASE} | wall ms | op/s | peak MiB |");
        let mut line = String::from("|---|---:|---:|---:|---:|---:|---:|");
        for (shown, title) in [(threads, "threads"), (first, "first update ms")] {
            if shown {
                let _ = write!(head, " {title} |");
                line.push_str("---:|");
            }
        }
        let _ = writeln!(out, "\n{head} target |\n{line}---|");
        for row in rows {
            let _ = write!(
                out,
                "| {} | {} | {} | {} | {} | {} | {} |",
                row.peer,
                cell(row.cpu_us),
                cell(row.best_us),
                times(row.ratio),
                cell(row.wall_ms),
                cell(row.rate),
                cell(row.peak_mib),
            );
            if threads {
                let _ = write!(out, " {} |", row.threads.map_or_else(|| "-".into(), |count| format!("{count:.0}")));
            }
            if first {
                let _ = write!(out, " {} |", cell(row.first_ms));
            }
            let _ = writeln!(out, " {} |", remark(scenario, &row));
        }
        out
    }

    /// How the cost of an update grows with the number of sessions a client has open.
    fn flatness(&self) -> String {
        let fans: Vec<(usize, usize)> = (0..)
            .zip(self.scenarios)
            .filter_map(|(index, scenario)| match scenario.work {
                Work::Fan { sessions, .. } => Some((index, sessions)),
                _ => None,
            })
            .collect();
        let (Some(first), Some(last)) = (fans.first(), fans.last()) else { return String::new() };
        if first == last {
            return String::new();
        }
        let mut out =
            String::from("\n## client_fan: growth with the number of sessions\n\nCPU us per update.\n\n| peer |");
        for (_, sessions) in &fans {
            let _ = write!(out, " {sessions} |");
        }
        let _ = writeln!(out, " growth |\n|---|{}---:|", "---:|".repeat(fans.len()));
        for row in self.rows(first.0) {
            let costs: Vec<Option<f64>> = fans
                .iter()
                .map(|(index, _)| self.rows(*index).iter().find(|other| other.peer == row.peer)?.cpu_us)
                .collect();
            let _ = write!(out, "| {} |", row.peer);
            for cost in &costs {
                let _ = write!(out, " {} |", cell(*cost));
            }
            let growth = costs.first().copied().flatten().zip(costs.last().copied().flatten());
            let _ = writeln!(out, " {} |", times(growth.map(|(first, last)| last / first)));
        }
        out
    }

    /// One line per aim.
    fn summary(&self) -> String {
        let mut out = format!(
            "\n## Summary\n\n| scenario | {BASE} CPU us/op | {FLOOR} | {OURS} | {BASE} / {FLOOR} | {BASE} / {OURS} | {OURS} / {FLOOR} | target | result |\n\
             |---|---:|---:|---:|---:|---:|---:|---|---|\n"
        );
        for (index, scenario) in self.scenarios.iter().enumerate() {
            let rows = self.rows(index);
            let of = |name: &str| rows.iter().find(|row| row.peer == name);
            let (base, floor, ours) = (of(BASE), of(FLOOR), of(OURS));
            let cost = |row: Option<&Row<'_>>| row.and_then(|row| row.cpu_us);
            let mut verdicts = verdicts(scenario, ours);
            if verdicts.is_empty() {
                verdicts.push(Verdict { aim: "-".into(), reached: None });
            }
            for verdict in verdicts {
                let word = if verdict.aim == "-" { "-" } else { verdict.word() };
                let _ = writeln!(
                    out,
                    "| {} | {} | {} | {} | {} | {} | {} | {} | {word} |",
                    scenario.name,
                    cell(cost(base)),
                    cell(cost(floor)),
                    cell(cost(ours)),
                    times(floor.and_then(|row| row.ratio)),
                    times(ours.and_then(|row| row.ratio)),
                    times(cost(ours).zip(cost(floor)).map(|(ours, floor)| ours / floor)),
                    verdict.aim,
                );
            }
        }
        out
    }

    /// Every number, for scripts.
    pub fn json(&self, sizes: &[Size]) -> Value {
        let mut results = Vec::new();
        for (index, scenario) in self.scenarios.iter().enumerate() {
            for row in self.rows(index) {
                let judged = if row.peer == OURS { verdicts(scenario, Some(&row)) } else { Vec::new() };
                let samples: Vec<f64> = row.outcome.samples.iter().map(|sample| sample.cpu_us).collect();
                results.push(json!({
                    "scenario": scenario.name, "peer": row.peer, "cpu_us_per_op": row.cpu_us, "ratio": row.ratio,
                    "wall_ms": row.wall_ms, "ops_per_s": row.rate, "peak_mib": row.peak_mib, "threads": row.threads,
                    "first_update_ms": row.first_ms, "cpu_us_samples": samples, "failures": row.outcome.failures,
                    "targets": judged.iter().map(|v| json!({"aim": v.aim, "reached": v.reached})).collect::<Vec<_>>(),
                }));
            }
        }
        let sizes: Vec<Value> = sizes.iter().map(Size::json).collect();
        json!({"reps": self.options.reps, "scale": self.options.scale, "one_core": self.options.one_core, "results": results, "sizes": sizes})
    }
}

/// The aims of a scenario, judged by a row if there is one.
fn verdicts(scenario: &Scenario, row: Option<&Row<'_>>) -> Vec<Verdict> {
    let target = scenario.target;
    // Some repetitions may have worked before one failed; they prove nothing.
    let row = row.filter(|row| row.outcome.failures.is_empty());
    let mut verdicts = Vec::new();
    if let Some(aim) = target.ratio {
        let reached = row.and_then(|row| row.ratio).map(|ratio| ratio >= aim);
        verdicts.push(Verdict { aim: format!("{aim}x"), reached });
    }
    if let Some(aim) = target.peak_mib {
        let reached = row.and_then(|row| row.peak_mib).map(|peak| peak <= aim);
        verdicts.push(Verdict { aim: format!("<= {aim} MiB"), reached });
    }
    if let Some(aim) = target.first_ms {
        let reached = row.and_then(|row| row.first_ms).map(|first| first <= aim);
        verdicts.push(Verdict { aim: format!("first update <= {aim} ms"), reached });
    }
    verdicts
}

/// The last cell of a row: what failed, or how the row stands to the targets.
fn remark(scenario: &Scenario, row: &Row<'_>) -> String {
    if let Some(failure) = row.outcome.failures.first() {
        // A bar would end the cell.
        return format!("FAILED: {}", failure.replace('|', "/").replace('\n', " "));
    }
    if row.peer != OURS {
        return String::new();
    }
    let verdicts = verdicts(scenario, Some(row));
    verdicts.iter().map(|verdict| format!("{} {}", verdict.aim, verdict.word())).collect::<Vec<_>>().join(", ")
}

fn cpu(samples: &[Sample]) -> Option<f64> {
    median(samples.iter().map(|sample| sample.cpu_us))
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    let lower = values[(values.len() - 1) / 2];
    Some(f64::midpoint(lower, upper))
}

/// A number with three digits that matter.
pub fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 1e6 => format!("{:.2}M", value / 1e6),
        size if size >= 1e4 => format!("{:.1}k", value / 1e3),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

fn cell(value: Option<f64>) -> String {
    value.map_or_else(|| "-".into(), number)
}

fn times(value: Option<f64>) -> String {
    value.map_or_else(|| "-".into(), |value| number(value) + "x")
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_in_the_middle() {
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, 3.0].into_iter()), Some(2.5));
        assert_eq!(median(std::iter::empty()), None);
    }

    #[test]
    fn numbers_are_short() {
        let shown = [0.0123, 0.5, 12.34, 123.4, 12_345.0, 2.5e6].map(number);
        assert_eq!(shown, ["0.012", "0.50", "12.3", "123", "12.3k", "2.50M"]);
    }
}
