//! Everything that we write in v1 and v2 goes through the official types and back without loss.

mod live;
mod samples;
mod table;

use tieline_interop::oracle::check_wire;
use tieline_interop::{
    Framing, RUN_DEADLINE, our_agent, our_client, run, rust_agent, rust_client, tap, tapped, ts_agent, ts_client,
};

#[test]
fn the_wires_of_the_scenario_pass() {
    for version in [1, 2] {
        let protocol = version.to_string();
        let ours = our_client(&protocol, Framing::Lines);
        for (client, agent) in [
            (rust_client(version), our_agent("auto")),
            (ts_client(version), our_agent("auto")),
            (ours.clone(), rust_agent(version)),
            (ours.clone(), ts_agent(version)),
            (ours, our_agent("auto")),
        ] {
            let folder = tempfile::tempdir().expect("a temporary folder");
            run(&client, &tap(&agent, folder.path()), RUN_DEADLINE).expect_ok();
            let wire = tapped(folder.path());
            assert!(wire.len() > 50, "only {} messages", wire.len());
            assert_eq!(check_wire(version, &wire), [""; 0], "{client:?} with {agent:?}");
        }
    }
}
