//! Who asks, by which name, from which page: Host, Origin and credential, before anything else is looked at.

use super::{Gate, Guest, Rules, Visitor};
use crate::SUBPROTOCOL;
use http::header::{AUTHORIZATION, COOKIE, HOST, ORIGIN, SEC_WEBSOCKET_PROTOCOL};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue};
use ring::digest::{SHA256, digest};
use std::net::IpAddr;

/// What is known of where a socket came in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// The address that the client found; none on a Unix socket.
    pub bound: Option<IpAddr>,
    pub secure: bool,
}

/// True if the server may be asked for by the name in the request. Another one was made to lead here by somebody.
pub(super) fn host_is_ours(head: &Parts, rules: &Rules, place: Place) -> bool {
    let Some(bound) = place.bound else { return true };
    let Some(authority) = authority(head) else { return false };
    let Some(name) = host_of(&authority) else { return false };
    let address = name.parse::<IpAddr>().map(|address| address.to_canonical());
    tieline_web::is_local(name)
        || address.is_ok_and(|address| address == bound.to_canonical())
        || rules.hosts.iter().any(|host| host.eq_ignore_ascii_case(name))
}

/// The web page's origin, if one asks; `Err` if that page may not. Scheme, host and port count.
pub(super) fn page_origin<'a>(head: &'a Parts, rules: &Rules, place: Place) -> Result<Option<&'a HeaderValue>, ()> {
    let mut origins = head.headers.get_all(ORIGIN).iter();
    let Some(value) = origins.next() else { return Ok(None) };
    let origin = value.to_str().map_err(|_| ())?;
    let own = authority(head).is_some_and(|authority| {
        let scheme = if place.secure { "https" } else { "http" };
        origin.eq_ignore_ascii_case(&format!("{scheme}://{authority}"))
    });
    let ours = own || rules.origins.iter().any(|allowed| allowed.eq_ignore_ascii_case(origin));
    if ours && origins.next().is_none() { Ok(Some(value)) } else { Err(()) }
}

fn authority(head: &Parts) -> Option<String> {
    let mut hosts = head.headers.get_all(HOST).iter();
    let (named, second) = (hosts.next(), hosts.next());
    match (head.uri.authority(), named) {
        _ if second.is_some() => None,
        (Some(authority), _) => Some(authority.as_str().to_owned()),
        (None, named) => Some(named?.to_str().ok()?.to_owned()),
    }
}

/// The host of `host:port`, without brackets. What stands where the port is has to be one.
fn host_of(authority: &str) -> Option<&str> {
    let (host, rest) = match authority.strip_prefix('[') {
        Some(bare) => bare.split_once(']')?,
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    (rest.is_empty() || rest.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok())).then_some(host)
}

/// Asks the gate.
pub(super) fn admit(head: &Parts, rules: &Rules, place: Place, gate: &dyn Gate) -> Option<Guest> {
    let bearer = head.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).and_then(|value| {
        let (scheme, token) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
    });
    let credential = bearer.or_else(|| protocols(&head.headers).find_map(|name| name.strip_prefix("bearer.")));
    let by_cookie = credential.is_none();
    let joined = if by_cookie { in_cookie(head, &rules.cookie) } else { None };
    let credential = credential.or(joined.as_deref());
    gate.admit(&Visitor { credential, by_cookie, by_file: place.bound.is_none(), head })
}

/// What the cookie is called with which a browser comes to this address: browsers send cookies to every port of a machine, so
/// the port is part of the name, lest servers beside each other take each other's place.
pub fn cookie_name(head: &Parts, name: &str) -> String {
    let authority = authority(head).unwrap_or_default();
    match authority.rsplit_once(':') {
        Some((_, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!("{name}-{port}")
        }
        _ => name.to_owned(),
    }
}

/// The credential of a browser: the first half of it is in its cookie, the second one is [said](HALF) by the page, who keeps it where
/// only pages of this very port can see it. So a server on another port, to which the cookie is sent as well, has no use for it.
pub fn in_cookie(head: &Parts, name: &str) -> Option<String> {
    let name = cookie_name(head, name);
    let mut pairs = list(&head.headers, &COOKIE, ';').filter_map(|pair| pair.split_once('='));
    let (_, first) = pairs.find(|(known, _)| *known == name)?;
    let header = head.headers.get(HALF).and_then(|value| value.to_str().ok());
    let second = header.or_else(|| protocols(&head.headers).find_map(|name| name.strip_prefix("half.")));
    Some(format!("{first}{}", second.unwrap_or_default()))
}

/// The header with the second half of a browser's credential. A WebSocket, which can have none from a page, has it in a subprotocol:
/// `half.…`.
pub const HALF: &str = "tieline-half";

/// The subprotocol that is chosen: ours, if the client offers it. A browser gives up if none of those that it offers is chosen, so
/// one that brings only its credential has that back; nobody else sees it.
pub(super) fn chosen(headers: &HeaderMap) -> Option<HeaderValue> {
    let offered = || protocols(headers);
    let ours = offered().find(|name| *name == SUBPROTOCOL);
    let chosen = ours.or_else(|| offered().find(|name| name.starts_with("bearer.")))?;
    HeaderValue::from_str(chosen).ok()
}

fn protocols(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    list(headers, &SEC_WEBSOCKET_PROTOCOL, ',')
}

/// The parts of a header that is a list.
pub(super) fn list<'a>(headers: &'a HeaderMap, name: &HeaderName, mark: char) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(move |value| value.split(mark)).map(str::trim)
}

/// A gate for bearer tokens that are known by their hashes. Nobody comes in without one, but by a Unix socket.
#[derive(Debug, Clone, Default)]
pub struct Tokens(Vec<(Guest, [u8; 32])>);

impl Tokens {
    /// Lets in whoever has this token, under this name.
    #[must_use]
    pub fn with(mut self, name: &str, token: &str) -> Self {
        self.0.push((Guest(name.to_owned()), hash(token)));
        self
    }
}

impl Gate for Tokens {
    fn admit(&self, visitor: &Visitor<'_>) -> Option<Guest> {
        if visitor.by_file {
            return Some(Guest("this machine".to_owned()));
        }
        let given = hash(visitor.credential?);
        // All are compared, in the same time.
        let mut found = None;
        for (guest, known) in &self.0 {
            let differs = known.iter().zip(given).fold(0, |differs, (one, other)| differs | (one ^ other));
            if differs == 0 {
                found = Some(guest.clone());
            }
        }
        found
    }
}

fn hash(token: &str) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    hash
}
