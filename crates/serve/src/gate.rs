//! The door: who is let in over HTTP and WebSocket, and the pages that need no token.

use crate::hub::{Role, Visitor};
use crate::site;
use crate::tokens::{Codes, Tokens};
use http::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, SET_COOKIE};
use http::request::Parts;
use http::response::Builder;
use http::{Method, Response, StatusCode};
use hyper::body::Bytes;
use std::fmt;
use std::sync::{Arc, OnceLock};
use tieline_http::server::{Gate, Guest, Visitor as Knocking, cookie_name, in_cookie};

/// Lets people in.
#[derive(Debug)]
pub struct Door {
    tokens: Tokens,
    codes: Arc<Codes>,
    /// Everybody is let in, as an administrator.
    open: bool,
    /// The cookie goes over TLS only.
    secure: bool,
    pub(crate) figures: Told<String>,
    /// Why clients should go elsewhere, if they should.
    pub(crate) health: Told<Option<String>>,
}

/// What is asked of the server from outside, once it runs.
#[derive(Clone)]
pub(crate) struct Told<T>(pub Arc<OnceLock<Box<dyn Fn() -> T + Send + Sync>>>);

impl<T> Default for Told<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> fmt::Debug for Told<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Told").finish_non_exhaustive()
    }
}

impl Door {
    /// A door that these tokens open.
    pub fn new(tokens: Tokens, codes: Arc<Codes>) -> Self {
        Self { tokens, codes, open: false, secure: false, figures: Told::default(), health: Told::default() }
    }

    /// Lets everybody in. Only for a server that nobody but this user can reach.
    #[must_use]
    pub fn open(mut self, open: bool) -> Self {
        self.open = open;
        self
    }

    /// The server is reached over TLS.
    #[must_use]
    pub fn secure(mut self, secure: bool) -> Self {
        self.secure = secure;
        self
    }

    /// The tokens that open it; `None` if everybody is let in.
    pub(crate) fn tokens(&self) -> Option<Tokens> {
        (!self.open).then(|| self.tokens.clone())
    }

    fn find(&self, secret: Option<&str>) -> Option<Visitor> {
        if self.open {
            return Some(Visitor { name: "anybody".into(), role: Role::Admin });
        }
        self.tokens.find(secret?)
    }

    /// What the cookie with the first half of a browser's token is called. Over TLS no other server can set one of this name for us.
    pub(crate) fn cookie_name(&self) -> &'static str {
        if self.secure { "__Host-tieline" } else { "tieline" }
    }

    fn cookie(&self, head: &Parts, half: &str) -> String {
        let (name, life) = (cookie_name(head, self.cookie_name()), Codes::browser_life().as_secs());
        let secure = if self.secure { "; Secure" } else { "" };
        format!("{name}={half}; Path=/; HttpOnly; SameSite=Strict; Max-Age={life}{secure}")
    }

    /// A one-time link was followed: the browser gets a cookie, and the code is gone from its address.
    fn redeem(&self, head: &Parts, code: &str) -> Response<Bytes> {
        let Some(token) = self.codes.redeem(code, &self.tokens) else {
            // The page knows whether this browser was let in before, and says how to go on if not.
            return leading(safe(StatusCode::FORBIDDEN), "/#used", "This link was used before, or is too old. ");
        };
        // A page of our own goes on: a redirect would be followed without the cookie, which is for our own pages only. It is told the
        // other half in the part of the address that is sent to nobody.
        let (first, second) = halves(&token);
        leading(safe(StatusCode::OK).header(SET_COOKIE, self.cookie(head, first)), &format!("/#half={second}"), "")
    }
}

impl Gate for Door {
    fn admit(&self, knocking: &Knocking<'_>) -> Option<Guest> {
        if knocking.by_file {
            return Some(guest(&Visitor { name: "this machine".into(), role: Role::Admin }));
        }
        self.find(knocking.credential).map(|visitor| guest(&visitor))
    }

    fn page(&self, head: &Parts) -> Option<Response<Bytes>> {
        let path = head.uri.path();
        if !matches!(head.method, Method::GET | Method::HEAD) {
            return None;
        }
        let code = head.uri.query().and_then(|query| query.split('&').find_map(|pair| pair.strip_prefix("code=")));
        // A look at the head uses nothing up.
        if let ("/", Some(code), true) = (path, code, head.method == Method::GET) {
            return Some(self.redeem(head, code));
        }
        if path == "/whoami" {
            return Some(match self.find(in_cookie(head, self.cookie_name()).as_deref()) {
                Some(visitor) => plain(StatusCode::OK, &visitor.name),
                None => plain(StatusCode::UNAUTHORIZED, "Nobody that is known here."),
            });
        }
        if path == "/health" {
            let unwell = self.health.0.get().and_then(|health| health());
            return Some(match unwell {
                Some(why) => plain(StatusCode::SERVICE_UNAVAILABLE, &why),
                None => plain(StatusCode::OK, "ok\n"),
            });
        }
        let bearer = head.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
        if path == "/metrics" {
            let figures = self.find(bearer).and_then(|_| self.figures.0.get()).map(|figures| figures());
            return Some(match figures {
                Some(figures) => plain(StatusCode::OK, &figures),
                None => plain(StatusCode::UNAUTHORIZED, "A token is needed: Authorization: Bearer …\n"),
            });
        }
        if path == "/login" {
            // In a header, which no page of others can send here: a token in an address would stay in the browser's history.
            return Some(match bearer.filter(|token| self.tokens.find(token).is_some()) {
                Some(token) => {
                    let response = safe(StatusCode::OK).header(SET_COOKIE, self.cookie(head, halves(token).0));
                    finish(response, Bytes::new())
                }
                None => plain(StatusCode::UNAUTHORIZED, "This token is not known here."),
            });
        }
        let file = site::file(path)?;
        let response = safe(StatusCode::OK).header(CONTENT_TYPE, file.kind);
        Some(finish(response, Bytes::from_static(file.bytes)))
    }
}

/// The role goes with the name: who is let in is asked once.
fn guest(visitor: &Visitor) -> Guest {
    let role = match visitor.role {
        Role::Read => "read",
        Role::Use => "use",
        Role::Admin => "admin",
    };
    Guest(format!("{role} {}", visitor.name))
}

/// Who was let in.
pub(crate) fn visitor(guest: &Guest) -> Visitor {
    let (role, name) = guest.0.split_once(' ').unwrap_or_default();
    let role = match role {
        "admin" => Role::Admin,
        "use" => Role::Use,
        _ => Role::Read,
    };
    Visitor { name: name.to_owned(), role }
}

/// What the cookie has of a token, and what the page keeps.
fn halves(token: &str) -> (&str, &str) {
    token.split_at_checked(token.len() / 2).unwrap_or((token, ""))
}

fn safe(status: StatusCode) -> Builder {
    Response::builder()
        .status(status)
        .header(CONTENT_SECURITY_POLICY, site::POLICY)
        .header(REFERRER_POLICY, "no-referrer")
        .header("x-content-type-options", "nosniff")
        .header("cross-origin-opener-policy", "same-origin")
        .header("cross-origin-resource-policy", "same-origin")
        .header(CACHE_CONTROL, "no-cache")
}

fn plain(status: StatusCode, words: &str) -> Response<Bytes> {
    finish(safe(status).header(CONTENT_TYPE, "text/plain; charset=utf-8"), Bytes::from(words.to_owned()))
}

/// A page that leads on to another one of ours.
fn leading(response: Builder, to: &str, words: &str) -> Response<Bytes> {
    let page = format!(
        "<!doctype html><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"0; url={to}\"><title>Tieline</title>{words}<a href=\"{to}\">Go on</a>"
    );
    finish(response.header(CONTENT_TYPE, "text/html; charset=utf-8"), Bytes::from(page))
}

fn finish(response: Builder, body: Bytes) -> Response<Bytes> {
    // Nothing in it comes from a peer, so it can't be refused.
    response.body(body).unwrap_or_default()
}
