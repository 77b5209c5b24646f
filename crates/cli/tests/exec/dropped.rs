//! What an agent sends and we pass over is said: to the person, in every output for programs, and as a failure with `--strict`.

use super::harness::{DIALECTS, Exec, Place, harmless};

fn breaks(place: &Place, dialect: &str, arguments: &[&str], way: &str) -> Exec {
    place.scripted("limits.py", "breaks", dialect, arguments).words(&[way])
}

#[test]
fn what_is_dropped_is_said_in_every_dialect_and_format() {
    // What is done, what is said of it, and whether that breaks the protocol or a limit of ours.
    let ways = [
        ("long", "a message over the size limit", true),
        ("batch", "a batch of 1001 messages", true),
        ("half", "half a character", true),
        ("entries", "too many entries", true),
        ("deep", "nested too deeply", true),
        ("whole", "an update that is too long", true),
        ("part", "parts of an update that is too long", true),
        ("content", "`session/update`: it can't be read", true),
        ("version", "JSON that is no message", true),
        ("method", "`session/no_such_thing`: there is no such notification", true),
        ("line", "npm WARN deprecated", true),
        ("elsewhere", "an update for a session that is not open here", false),
    ];
    for (number, (way, said, breach)) in ways.into_iter().enumerate() {
        for dialect in DIALECTS {
            let place = Place::new();
            let done = breaks(&place, dialect, &[], way).run().ends(0);
            done.err_has(said).out_has("after");
            assert_eq!(done.err.matches(said).count(), 1, "{done:#?}");
            let format = ["json", "stream-json", "acp"][number % 3];
            let done =
                breaks(&place, dialect, &["--strict", "--format", format], way).run().ends(if breach { 13 } else { 0 });
            let end = done.events().pop().unwrap();
            let end = if format == "acp" { &end["params"] } else { &end };
            let warned = |text: &serde_json::Value| text.as_str().unwrap().contains(said);
            assert!(end["warnings"].as_array().unwrap().iter().any(warned), "{way} {dialect} {end}");
            assert_eq!(end["error"]["violations"].is_array(), breach, "{way} {dialect} {end}");
            if format == "stream-json" {
                assert!(
                    done.events().iter().any(|event| event["type"] == "warning" && warned(&event["message"])),
                    "{way}"
                );
            }
        }
    }
}

#[test]
fn twenty_thousand_of_them_are_not_twenty_thousand_lines() {
    let done = breaks(&Place::new(), "1", &[], "thousands").run().ends(0);
    done.out_has("after").err_has("no");
    assert!(harmless(&done.err) && done.err.lines().count() < 70, "{}", done.err.len());
    let done = breaks(&Place::new(), "1", &["--format", "json"], "thousands").run().ends(0);
    assert!(done.object()["warnings"].to_string().contains("19950 more warnings"), "{}", done.object()["warnings"]);
}
