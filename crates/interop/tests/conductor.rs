//! Our proxy in the chain of the official conductor, which `scripts/test` installs.

use tieline_interop::{RUN_DEADLINE, all_steps, conductor, our_agent, our_proxy, run, rust_client};

#[path = "../../../scripts/skipped.rs"]
mod skipped;

#[test]
fn our_proxy_in_the_official_conductors_chain() {
    let Some(conductor) = conductor() else {
        return skipped::skipped(
            "CONDUCTOR",
            "our proxy in the chain of the official conductor, which is not installed",
        );
    };
    let chain = |proxies: usize| {
        let mut chain = vec![conductor.clone(), "agent".into()];
        chain.extend(std::iter::repeat_n(our_proxy(), proxies));
        chain.push(our_agent("auto").join(" "));
        chain
    };
    for proxies in 0..3 {
        let outcome = run(&rust_client(1), &chain(proxies), RUN_DEADLINE);
        outcome.expect_ok();
        outcome.expect_steps(&all_steps(1));
        let hello = outcome.step("initialize").unwrap_or_else(|| panic!("{outcome}"));
        let name = format!("ours-agent{}", " through ours-proxy".repeat(proxies));
        assert_eq!(hello["agent"], name, "{outcome}");
    }
}
