//! Every way to hold a command: each test runs once for each.

use crate::harness::block_on;
use std::path::Path;
use tieline_host::run::{Outcome, Request};
use tieline_host::sandbox::{Level, Mechanism, Policy};

/// Every way to hold a family together: namespaces, Landlock and nothing.
pub fn ways(root: &Path) -> Vec<(&'static str, Policy)> {
    let new = |level| Policy::new(level, [root]).unwrap();
    let mut all = vec![
        ("namespaces", new(Level::Workspace)),
        ("landlock", new(Level::Workspace).without(Mechanism::Namespaces)),
        ("off", new(Level::Off)),
    ];
    // Those that the machine has.
    all.retain(|(_, policy)| policy.check().is_ok());
    all
}

pub fn names() -> Vec<&'static str> {
    ways(&std::env::temp_dir()).into_iter().map(|(name, _)| name).collect()
}

pub fn way(name: &str, root: &Path) -> Policy {
    ways(root).into_iter().find(|(way, _)| *way == name).unwrap().1
}

pub fn each(test: impl AsyncFn(&str, &Path, Policy)) {
    block_on(async {
        let folder = tempfile::tempdir().unwrap();
        for (name, policy) in ways(folder.path()) {
            test(name, folder.path(), policy).await;
        }
    });
}

pub async fn run(request: Request) -> (Outcome, String) {
    let command = request.start().await.unwrap();
    let outcome = command.outcome().await;
    (outcome, command.output(0).to_string())
}
