//! The cookies of one connection: what a proxy sets to find the same server again.

use http::header::{HeaderMap, HeaderValue, SET_COOKIE};

/// Cookies are kept up to this number, each up to this many bytes.
const MAX_COOKIES: usize = 50;
const MAX_COOKIE_BYTES: usize = 4096;

/// Cookies. They go to the one server that set them, so that domains and paths make no difference.
#[derive(Debug, Default)]
pub(super) struct Jar(Vec<(String, String)>);

impl Jar {
    /// Takes what an answer sets, and forgets what it takes back.
    pub fn take(&mut self, headers: &HeaderMap) {
        for value in headers.get_all(SET_COOKIE).iter().filter_map(|value| value.to_str().ok()) {
            let mut parts = value.split(';').map(str::trim);
            let Some((name, value)) = parts.next().and_then(|pair| pair.split_once('=')) else { continue };
            let (name, value) = (name.trim(), value.trim());
            if name.is_empty() || name.len() + value.len() > MAX_COOKIE_BYTES {
                continue;
            }
            let over = parts.filter_map(|part| part.split_once('=')).any(|(key, value)| {
                key.trim().eq_ignore_ascii_case("max-age") && value.trim().parse::<i64>().is_ok_and(|age| age <= 0)
            });
            self.0.retain(|(known, _)| known != name);
            if !over && self.0.len() < MAX_COOKIES {
                self.0.push((name.to_owned(), value.to_owned()));
            }
        }
    }

    /// What is sent back.
    pub fn header(&self) -> Option<HeaderValue> {
        let pairs: Vec<String> = self.0.iter().map(|(name, value)| format!("{name}={value}")).collect();
        if pairs.is_empty() { None } else { HeaderValue::try_from(pairs.join("; ")).ok() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rule 62.
    #[test]
    fn cookies_come_back() {
        let mut jar = Jar::default();
        assert_eq!(jar.header(), None);
        for (set, sent) in [
            ("a=1; Path=/; HttpOnly", Some("a=1")),
            ("b = x=y ; Max-Age=60", Some("a=1; b=x=y")),
            ("a=2", Some("b=x=y; a=2")),
            ("b=; max-age=0", Some("a=2")),
            ("nonsense", Some("a=2")),
            ("=x", Some("a=2")),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(SET_COOKIE, HeaderValue::from_static(set));
            jar.take(&headers);
            assert_eq!(jar.header().as_ref().map(|value| value.to_str().unwrap()), sent, "{set}");
        }
    }
}
