//! Files as editors serve them: a buffer without its last newline, an empty text for a file that is yet to be made.

/// The text that a client means, if `disk` is what is on the disk; `None` if there is no file. A buffer has lines, and no
/// mark where the last one ends; one that was opened for a file that is not there is empty.
pub fn meant(client: String, disk: Option<&str>) -> Option<String> {
    match disk {
        None => (!client.is_empty()).then_some(client),
        Some(disk) if same(&client, disk) => Some(disk.to_owned()),
        // A file that ends with a newline goes on to end with one.
        Some(disk) if disk.ends_with('\n') && !client.is_empty() && !client.ends_with('\n') => Some(client + "\n"),
        Some(_) => Some(client),
    }
}

/// True if two texts have the same lines, however they end.
pub fn same(one: &str, other: &str) -> bool {
    one.lines().eq(other.lines()) && one.is_empty() == other.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_means() {
        for (client, disk, expect) in [
            ("", None, None),
            ("new", None, Some("new")),
            ("", Some(""), Some("")),
            ("", Some("a\n"), Some("")),
            ("", Some("\n"), Some("")),
            ("a\nb", Some("a\nb\n"), Some("a\nb\n")),
            ("a\nb\n", Some("a\nb"), Some("a\nb")),
            ("a\nb", Some("a\r\nb\r\n"), Some("a\r\nb\r\n")),
            ("a\n\n", Some("a\n"), Some("a\n\n")),
            // Not saved yet.
            ("a\nc", Some("a\nb\n"), Some("a\nc\n")),
            ("a\nc", Some("a\nb"), Some("a\nc")),
        ] {
            assert_eq!(meant(client.to_owned(), disk).as_deref(), expect, "{client:?} {disk:?}");
        }
    }
}
