//! Journeys: what a person types over several processes, and what must be seen. `README.md` beside this file tells the language.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod language;
mod play;
mod terminal;
mod world;

use libtest_mimic::{Arguments, Trial};

fn main() {
    let mut arguments = Arguments::from_args();
    // Journeys mostly wait for processes.
    arguments.test_threads.get_or_insert(4);
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/journeys");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|ending| ending == "journey"));
    files.sort();
    let mut trials = Vec::new();
    for path in files {
        let group = path.file_stem().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        for journey in language::parse(&group, &text).unwrap_or_else(|error| panic!("{group}.journey:{error}")) {
            for case in journey.cases() {
                let name = case.name(&group);
                let group = group.clone();
                trials.push(Trial::test(name, move || play::play(&group, &case).map_err(Into::into)));
            }
        }
    }
    libtest_mimic::run(&arguments, trials).exit();
}
