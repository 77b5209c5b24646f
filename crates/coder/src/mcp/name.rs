//! What the model calls the tools of MCP servers: names that every provider takes and that can't be mistaken for another.

use tieline_host::files::Hash;

/// The longest name that all providers take, in bytes.
const MAX_NAME_BYTES: usize = 64;
/// So much of a hash makes a name unique, in hexadecimal digits.
const MARK_DIGITS: usize = 8;

/// The name of a tool of a server: `mcp__SERVER__TOOL`.
///
/// Where that would be too long, have a character that providers refuse, or could be read as another pair, the readable
/// part is shortened and a hash of the pair follows. So the same pair always has the same name, and another pair never.
pub fn tool_name(server: &str, tool: &str) -> String {
    let plain = format!("mcp__{server}__{tool}");
    // Without these, `a__b` + `c` and `a` + `b__c` would be the same.
    let clear = !server.contains("__") && !server.ends_with('_') && !server.is_empty() && !tool.is_empty();
    // Nobody can choose a name that another pair gets through its hash.
    let clear = clear && !is_marked(&plain);
    if clear && plain.len() <= MAX_NAME_BYTES && plain.chars().all(fits) {
        return plain;
    }
    let hash = Hash::of(format!("{}:{server}{tool}", server.len()).as_bytes()).to_string();
    let mut name: String =
        plain.chars().map(|c| if fits(c) { c } else { '_' }).take(MAX_NAME_BYTES - MARK_DIGITS - 1).collect();
    name.push('_');
    name.extend(hash.chars().take(MARK_DIGITS));
    name
}

/// Whether a name ends like one with a hash.
fn is_marked(name: &str) -> bool {
    let mark = |(_, mark): (&str, &str)| mark.len() == MARK_DIGITS && mark.bytes().all(|byte| byte.is_ascii_hexdigit());
    name.rsplit_once('_').is_some_and(mark)
}

fn fits(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn plain_names_stay() {
        for (server, tool, expect) in [
            ("everything", "echo", "mcp__everything__echo"),
            ("a", "_b", "mcp__a___b"),
            ("_a", "b", "mcp___a__b"),
            ("fs-1", "read_file", "mcp__fs-1__read_file"),
        ] {
            assert_eq!(tool_name(server, tool), expect);
        }
    }

    #[test]
    fn pairs_that_look_alike_differ() {
        let pairs =
            [("a", "b__c"), ("a__b", "c"), ("a_", "b"), ("a", "_b"), ("a b", "c"), ("a.b", "c"), ("", "x"), ("é", "x")];
        for (at, one) in pairs.iter().enumerate() {
            for other in &pairs[at + 1..] {
                assert_ne!(tool_name(one.0, one.1), tool_name(other.0, other.1), "{one:?} {other:?}");
            }
        }
        // `a b` + `c` has a hash; `a_b` can't have a tool of the same name.
        let taken = tool_name("a b", "c");
        let (_, tool) = taken.strip_prefix("mcp__").and_then(|rest| rest.split_once("__")).unwrap();
        assert_ne!(tool_name("a_b", tool), taken);
        let long = "x".repeat(100);
        assert_ne!(tool_name("s", &long), tool_name("s", &format!("{long}y")));
    }

    proptest! {
        #[test]
        fn every_provider_takes_it(server in ".{0,80}", tool in ".{0,80}") {
            let name = tool_name(&server, &tool);
            prop_assert!(name.len() <= MAX_NAME_BYTES && name.chars().all(fits) && name.starts_with("mcp__"), "{}", name);
        }

        #[test]
        fn two_pairs_never_share_one(a in "[ab_]{0,6}", b in "[ab_]{0,6}", c in "[ab_]{0,6}", d in "[ab_]{0,6}") {
            prop_assume!((&a, &b) != (&c, &d));
            prop_assert_ne!(tool_name(&a, &b), tool_name(&c, &d));
        }
    }
}
