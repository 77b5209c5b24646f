//! Drives real agents from npm offline: `interop-real-agents TARGET [NAME…]`; `scripts/real-agents` starts it.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program talks to its user")]

use std::path::Path;
use std::process::ExitCode;
use tieline_interop::real::{Verdict, agents::AGENTS, llama::try_llama, try_agent};

/// What the check of a real model is called.
const LLAMA: &str = "llama";

async fn attempt(name: &str, target: &Path) -> (Verdict, f64) {
    match AGENTS.iter().find(|agent| agent.name == name) {
        Some(agent) => try_agent(agent, target).await,
        None => try_llama(target).await,
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some((target, names)) = args.split_first() else {
        eprintln!("usage: interop-real-agents TARGET [NAME…]");
        return ExitCode::from(2);
    };
    let all: Vec<&str> = AGENTS.iter().map(|agent| agent.name).chain([LLAMA]).collect();
    if let Some(unknown) = names.iter().find(|name| !all.contains(&name.as_str())) {
        eprintln!("there is no agent {unknown:?}; there are: {}", all.join(", "));
        return ExitCode::from(2);
    }
    let (mut passed, mut skipped, mut failed) = (0, 0, 0);
    for name in all.into_iter().filter(|name| names.is_empty() || names.iter().any(|wanted| wanted == name)) {
        let (mut verdict, mut seconds) = attempt(name, Path::new(target)).await;
        // These are large programs of others, with clocks of their own: what fails once is said and tried once more.
        if let Verdict::Failed(why) = &verdict {
            println!("AGAIN    {name} ({seconds:.0} s), because it failed: {why}");
            (verdict, seconds) = attempt(name, Path::new(target)).await;
        }
        let title = format!("{name} ({seconds:.0} s)");
        match verdict {
            Verdict::Passed(lines) => {
                passed += 1;
                println!("ok       {title}");
                for line in lines {
                    println!("         - {line}");
                }
            }
            Verdict::Skipped(why) => {
                skipped += 1;
                println!("SKIPPED  {title}: IT WAS NOT TESTED: {why}");
            }
            Verdict::Failed(why) => {
                failed += 1;
                println!("FAILED   {title}: {why}");
            }
        }
    }
    println!("{passed} passed, {skipped} skipped, {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
