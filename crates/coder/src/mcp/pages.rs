//! The pages that the user was sent to for a server: which are open, and what the client and the server call them.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use tieline_host::rules::Host;
use tieline_host::secret;
use tieline_rpc::sync::Lock;

/// As many pages of one server as may be open; older ones are forgotten.
const MAX_PAGES: usize = 8;
/// Parts of addresses that are no secrets, though they sound like it: the first step of an OAuth 1.0a login.
const PLAIN: &[&str] = &["oauth_token", "request_token"];

/// The open pages of one server: what the client calls each, and what the server does.
#[derive(Debug, Default)]
pub struct Pages(Mutex<VecDeque<(String, String)>>);

impl Pages {
    /// Takes note of a page. Gives the name that the client is told: servers don't know each other, so two of them may
    /// choose the same one.
    pub fn open(&self, theirs: &str) -> String {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let ours = format!("page-{}", LAST.fetch_add(1, Ordering::Relaxed) + 1);
        let mut list = self.0.locked();
        if list.len() == MAX_PAGES {
            list.pop_front();
        }
        list.push_back((ours.clone(), theirs.to_owned()));
        ours
    }

    /// The user did not go there.
    pub fn forget(&self, ours: &str) {
        self.0.locked().retain(|(known, _)| known != ours);
    }

    /// The server says that the user is done there. Gives what the client calls it; nothing if it is not open.
    pub fn done(&self, theirs: &str) -> Option<String> {
        let mut list = self.0.locked();
        let at = list.iter().position(|(_, known)| known == theirs)?;
        list.remove(at).map(|(ours, _)| ours)
    }
}

/// Whether the user may be sent to this address: a web page, safe on its way unless it is on this machine, and without
/// anything secret in it, because the client shows and keeps it.
pub fn is_fit(url: &str) -> bool {
    let parts = url.split(['?', '#']).skip(1).flat_map(|part| part.split(['&', ';']));
    let secret = |part: &str| {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        let key = percent_encoding::percent_decode_str(key).decode_utf8_lossy().to_lowercase();
        !value.is_empty() && !PLAIN.contains(&&*key) && (key == "key" || secret::is_named_in(&key))
    };
    Host::of_url(url).is_some_and(|host| host.is_private()) && !parts.into_iter().any(secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_never_the_same() {
        let (one, other) = (Pages::default(), Pages::default());
        let ours = [one.open("login"), other.open("login")];
        assert_ne!(ours[0], ours[1]);
        assert_eq!(other.done("nobody"), None);
        assert_eq!((other.done("login").as_ref(), other.done("login")), (Some(&ours[1]), None));
        one.forget(&ours[0]);
        assert_eq!(one.done("login"), None);
        let first = one.open("first");
        (0..MAX_PAGES).for_each(|_| drop(one.open("more")));
        assert!(one.0.locked().len() == MAX_PAGES && one.0.locked().iter().all(|(ours, _)| *ours != first));
    }

    #[test]
    fn addresses() {
        for url in [
            "https://example.com/login",
            "https://example.com/authorize?client_id=x&state=y&code_challenge=z&response_type=token",
            "https://example.com/oauth?oauth_token=x",
            "http://localhost:8080/a",
            "http://127.0.0.1/a",
            "http://[::1]:9/a",
            "https://example.com/?token=",
        ] {
            assert!(is_fit(url), "{url}");
        }
        for url in [
            "http://example.com/login",
            "https://me:pw@example.com/",
            "file:///etc/passwd",
            "https://example.com/?access_token=x",
            "https://example.com/?a=b&api%5Fkey=x",
            "https://example.com/#a=1&password=x",
            "https://example.com/?key=x",
            "nonsense",
        ] {
            assert!(!is_fit(url), "{url}");
        }
    }
}
