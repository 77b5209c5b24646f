//! Who speaks with whom over the network: `interop-remote-peers RUST-PEERS [NAME…]`; `scripts/remote-peers` starts it.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program talks to its user")]

use std::process::ExitCode;
use tieline_interop::remote;

#[tokio::main]
async fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let Some(rust) = args.next() else {
        eprintln!("usage: interop-remote-peers RUST-PEERS [NAME…]");
        return ExitCode::from(2);
    };
    let names: Vec<String> = args.collect();
    let (mut passed, mut failed) = (0, 0);
    println!("         client      server      way   version");
    remote::all(rust, &names, |row| {
        let cells = format!("{:<11} {:<11} {:<5} {}", row.client, row.server, row.way, row.version);
        match &row.told {
            Ok(done) => {
                passed += 1;
                println!("ok       {cells}  {done}");
            }
            Err(why) => {
                failed += 1;
                println!("FAILED   {cells}  {why}");
            }
        }
    })
    .await;
    println!("{passed} passed, {failed} failed");
    if failed == 0 && passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
