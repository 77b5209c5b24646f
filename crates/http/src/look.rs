//! What a transport has to know of a message: its id, its method, its session, its position. Nothing else is read.

use std::borrow::Cow;
use tieline_json::{Error, Kind, Reader};
use tieline_rpc::Id;

/// One message, looked at.
#[derive(Debug, Default)]
pub(crate) struct Look<'a> {
    pub id: Option<Id>,
    pub method: Option<Cow<'a, str>>,
    /// The session in its parameters.
    pub session: Option<Cow<'a, str>>,
    /// Its position in the log of the session (`_meta.tieline.event`), if the one above gives one.
    pub position: Option<Cow<'a, str>>,
    /// The session in its result: one that was made.
    pub made: Option<Cow<'a, str>>,
    /// It is an answer that says no.
    pub is_error: bool,
}

/// What came in one piece.
#[derive(Debug)]
pub(crate) enum Sight<'a> {
    One(Look<'a>),
    Batch(Vec<Look<'a>>),
}

/// Looks at a text. `None` if it is no JSON, or neither an object nor an array.
pub(crate) fn look(text: &str) -> Option<Sight<'_>> {
    let mut json = Reader::new(text);
    let sight = match json.peek().ok()? {
        Kind::Object => Sight::One(object(&mut json).ok()?),
        Kind::Array => Sight::Batch(array(&mut json).ok()?),
        _ => return None,
    };
    json.end().ok().map(|()| sight)
}

fn array<'a>(json: &mut Reader<'a>) -> Result<Vec<Look<'a>>, Error> {
    let (mut looks, mut array) = (Vec::new(), json.array()?);
    while array.item(json)? {
        json.count_entry()?;
        looks.push(if json.peek()? == Kind::Object { object(json)? } else { json.skip().map(|()| Look::default())? });
    }
    Ok(looks)
}

fn object<'a>(json: &mut Reader<'a>) -> Result<Look<'a>, Error> {
    let (mut look, mut object) = (Look::default(), json.object()?);
    while let Some(key) = object.key(json)? {
        match (&*key, json.peek()?) {
            ("id", Kind::Number | Kind::String | Kind::Null) => look.id = Some(Id::read(json)?),
            ("method", Kind::String) => look.method = Some(json.string()?),
            ("params", Kind::Object) => (look.session, look.position) = session(json)?,
            ("result", Kind::Object) => look.made = session(json)?.0,
            ("error", Kind::Object) => {
                look.is_error = true;
                json.skip()?;
            }
            _ => json.skip()?,
        }
    }
    Ok(look)
}

type Text<'a> = Option<Cow<'a, str>>;

fn session<'a>(json: &mut Reader<'a>) -> Result<(Text<'a>, Text<'a>), Error> {
    let (mut session, mut position, mut object) = (None, None, json.object()?);
    while let Some(key) = object.key(json)? {
        match (&*key, json.peek()?) {
            ("sessionId", Kind::String) => session = Some(json.string()?),
            ("_meta", Kind::Object) => position = at(json, &["tieline", "event"])?,
            _ => json.skip()?,
        }
    }
    Ok((session, position))
}

/// The text at a path in an object.
fn at<'a>(json: &mut Reader<'a>, path: &[&str]) -> Result<Text<'a>, Error> {
    let (mut found, mut object) = (None, json.object()?);
    while let Some(key) = object.key(json)? {
        match (path, json.peek()?) {
            ([name], Kind::String) if key == *name => found = Some(json.string()?),
            ([name, rest @ ..], Kind::Object) if key == *name && !rest.is_empty() => found = at(json, rest)?,
            _ => json.skip()?,
        }
    }
    Ok(found)
}

impl Look<'_> {
    pub fn is(&self, method: &str) -> bool {
        self.method.as_deref() == Some(method)
    }

    /// It asks for an answer.
    pub fn is_request(&self) -> bool {
        self.method.is_some() && self.id.is_some()
    }

    /// It is an answer.
    pub fn is_response(&self) -> bool {
        self.method.is_none() && self.id.is_some()
    }

    /// The session that the message belongs to. What is about messages (`$/…`) belongs to the connection.
    pub fn scope(&self) -> Option<&str> {
        let of_connection = self.method.as_ref().is_some_and(|method| method.starts_with("$/"));
        self.session.as_deref().filter(|_| !of_connection)
    }

    /// It takes up a session that the connection may not know yet.
    pub fn takes_up(&self) -> bool {
        ["session/load", "session/resume", "session/fork", "session/attach"].iter().any(|method| self.is(method))
    }
}

impl<'a> Sight<'a> {
    pub fn looks(&self) -> &[Look<'a>] {
        match self {
            Self::One(look) => std::slice::from_ref(look),
            Self::Batch(looks) => looks,
        }
    }

    /// The session that all of it belongs to. Answers have none of their own.
    pub fn scope(&self) -> Option<&str> {
        let mut scopes = self.looks().iter().filter(|look| look.method.is_some()).map(Look::scope);
        let first = scopes.next()??;
        scopes.all(|scope| scope == Some(first)).then_some(first)
    }

    /// Any session that is named in it.
    pub fn named(&self) -> impl Iterator<Item = &str> {
        self.looks().iter().filter_map(Look::scope)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_seen_through() {
        for (text, scope, kind) in [
            (
                r#"{"id":1,"method":"session/prompt","params":{"sessionId":"a","x":[{"sessionId":"b"}]}}"#,
                Some("a"),
                "request",
            ),
            (r#"{"params":{"sessionId":"\u0061"},"method":"session/update"}"#, Some("a"), ""),
            (r#"{"method":"$/cancel_request","params":{"sessionId":"a","requestId":1}}"#, None, ""),
            (r#"{"id":"x","result":{"sessionId":"a"}}"#, None, "response"),
            (r#"{"id":null,"error":{"code":1}}"#, None, "response"),
            (r#"{"id":{},"method":5,"params":[]}"#, None, ""),
            (
                r#"[{"id":1,"method":"x","params":{"sessionId":"a"}},{"id":7,"result":1},{"method":"y","params":{"sessionId":"a"}}]"#,
                Some("a"),
                "batch",
            ),
            (r#"[{"id":1,"method":"x","params":{"sessionId":"a"}},{"method":"y"}]"#, None, "batch"),
            ("[5,[]]", None, "batch"),
        ] {
            let sight = look(text).unwrap();
            assert_eq!(sight.scope(), scope, "{text}");
            let found = match &sight {
                Sight::Batch(_) => "batch",
                Sight::One(look) if look.is_request() => "request",
                Sight::One(look) if look.is_response() => "response",
                Sight::One(_) => "",
            };
            assert_eq!(found, kind, "{text}");
        }
        for text in ["", "5", "\"x\"", "null", "{", "{}x", "[", r#"{"id":}"#] {
            assert!(look(text).is_none(), "{text}");
        }
    }
}
