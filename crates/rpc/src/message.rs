//! Frames to messages: what a JSON text is in JSON-RPC, decided in one pass over it. No I/O.

use crate::{Id, IdRule};
use std::borrow::Cow;
use tieline_json::{Error, Kind, Reader};

/// One JSON-RPC message, or what is wrong with it.
#[derive(Debug, PartialEq)]
pub enum Message<'a, C> {
    /// Wants exactly one answer.
    Request {
        /// Goes back unchanged.
        id: Id,
        /// What is asked for.
        method: Cow<'a, str>,
        /// Its decoded parameters.
        call: Call<C>,
    },
    /// Wants no answer, whatever is wrong with it.
    Notification {
        /// What is told.
        method: Cow<'a, str>,
        /// Its decoded parameters.
        call: Call<C>,
    },
    /// An answer to one of our requests. Never answered itself, so two broken peers can't loop.
    Response {
        /// Which request; `None` if unreadable.
        id: Option<Id>,
        /// The raw result or error, or why it can't be read.
        outcome: Result<Outcome<'a>, Error>,
    },
    /// The entries of an array, not yet looked at.
    Batch(Vec<&'a str>),
    /// JSON, but no message.
    Invalid,
    /// Not JSON.
    Unparsable,
    /// A request that is more than we read: the id if it could be found, and in what.
    TooMuch(Option<Id>, &'static str),
}

/// The raw result or error of a response.
#[derive(Debug, PartialEq, Clone, Copy)]
pub enum Outcome<'a> {
    /// `result`
    Result(&'a str),
    /// `error`
    Error(&'a str),
}

/// The parameters of a request or notification.
#[derive(Debug, PartialEq)]
pub enum Call<C> {
    /// Understood.
    Known(C),
    /// There is no such method.
    Unknown,
    /// The method is known, the parameters are not right.
    Bad(Error),
}

/// Reads the parameters of a method; `Ok(None)` if there is no such method.
pub type Decoder<'d, C> = &'d dyn Fn(&str, &mut Reader<'_>) -> Result<Option<C>, Error>;

/// Judges one JSON text. The same rules hold for an entry of a batch, where the caller refuses a nested array.
pub fn parse<'a, C>(text: &'a str, rule: IdRule, decode: Decoder<'_, C>) -> Message<'a, C> {
    let mut json = Reader::new(text);
    let message = match json.peek() {
        Ok(Kind::Object) => object(&mut json, rule, decode),
        Ok(Kind::Array) => array(&mut json),
        Ok(_) => json.skip().map(|()| Message::Invalid),
        Err(error) => Err(error),
    };
    match message.and_then(|message| json.end().map(|()| message)) {
        Ok(message) => message,
        Err(error) => {
            let Some(what) = error.too_much_of() else { return Message::Unparsable };
            let outline = Outline::of(text);
            match (outline.method, outline.id) {
                (Some(method), None) => Message::Notification { method, call: Call::Bad(error) },
                (None, id) if outline.is_response => Message::Response { id, outcome: Err(error) },
                (_, id) => Message::TooMuch(id, what),
            }
        }
    }
}

/// What a message is, as far as that can be told of one that is cut off or nested too deeply to be read.
#[derive(Debug)]
pub struct Outline<'a> {
    /// The id that could be found.
    pub id: Option<Id>,
    /// The method that could be found.
    pub method: Option<Cow<'a, str>>,
    /// It answers something.
    pub is_response: bool,
}

impl<'a> Outline<'a> {
    /// Looks at the keys of the object, up to the end of what can be read.
    pub fn of(text: &'a str) -> Self {
        let mut outline = Self { id: None, method: None, is_response: false };
        outline.look(&mut Reader::new(text));
        outline.is_response &= outline.method.is_none();
        outline
    }

    fn look(&mut self, json: &mut Reader<'a>) -> Option<()> {
        let mut object = json.object().ok()?;
        while let Some(key) = object.key(json).ok()? {
            match &*key {
                "id" => self.id = Some(Id::read(json).ok()?),
                "method" => self.method = Some(json.string().ok()?),
                other => {
                    self.is_response |= matches!(other, "result" | "error");
                    json.skip_unread().ok()?;
                }
            }
        }
        Some(())
    }
}

fn array<'a, C>(json: &mut Reader<'a>) -> Result<Message<'a, C>, Error> {
    let mut entries = Vec::new();
    let mut array = json.array()?;
    while array.item(json)? {
        json.count_entry()?;
        entries.push(json.raw()?);
    }
    Ok(Message::Batch(entries))
}

/// What the keys of an object said. For a repeated key the last one counts.
struct Fields<'a, C> {
    version_ok: bool,
    id: Option<Result<Id, Error>>,
    method: Option<Result<Cow<'a, str>, Error>>,
    params: Option<Params<'a, C>>,
    result: Option<&'a str>,
    error: Option<&'a str>,
}

struct Params<'a, C> {
    kind: Kind,
    text: &'a str,
    /// Set if the method was known when the parameters came, so that they were decoded in passing.
    decoded: Option<Call<C>>,
}

fn object<'a, C>(json: &mut Reader<'a>, rule: IdRule, decode: Decoder<'_, C>) -> Result<Message<'a, C>, Error> {
    let mut fields = Fields { version_ok: false, id: None, method: None, params: None, result: None, error: None };
    let mut object = json.object()?;
    while let Some(key) = object.key(json)? {
        match &*key {
            "jsonrpc" => fields.version_ok = json.raw()? == "\"2.0\"",
            "id" => fields.id = Some(settle(Id::read(json))?),
            "method" => {
                fields.method = Some(if json.peek()? == Kind::String {
                    Ok(json.string()?)
                } else {
                    json.skip()?;
                    Err(Error::data("expected a string"))
                });
                // A second method makes what was decoded for the first one void.
                if let Some(params) = &mut fields.params {
                    params.decoded = None;
                }
            }
            "params" => fields.params = Some(params(json, &fields, decode)?),
            "result" => fields.result = Some(json.raw()?),
            "error" => fields.error = Some(json.raw()?),
            _ => json.skip()?,
        }
    }
    Ok(classify(fields, rule, decode))
}

/// A wrong kind of value is remembered, broken JSON ends everything.
fn settle<T>(read: Result<T, Error>) -> Result<Result<T, Error>, Error> {
    match read {
        Err(error) if error.is_syntax() => Err(error),
        other => Ok(other),
    }
}

fn params<'a, C>(
    json: &mut Reader<'a>,
    fields: &Fields<'a, C>,
    decode: Decoder<'_, C>,
) -> Result<Params<'a, C>, Error> {
    let kind = json.peek()?;
    let mark = json.mark();
    if let (Kind::Object, Some(Ok(method))) = (kind, &fields.method) {
        let call = match settle(decode(method, json))? {
            Ok(Some(call)) => Some(Call::Known(call)),
            Ok(None) => {
                json.rewind(mark);
                json.skip()?;
                Some(Call::Unknown)
            }
            Err(error) => {
                json.rewind(mark);
                json.skip()?;
                Some(Call::Bad(error))
            }
        };
        return Ok(Params { kind, text: json.since(mark), decoded: call });
    }
    Ok(Params { kind, text: json.raw()?, decoded: None })
}

fn classify<'a, C>(fields: Fields<'a, C>, rule: IdRule, decode: Decoder<'_, C>) -> Message<'a, C> {
    let Some(method) = fields.method else {
        let outcome = match (fields.result, fields.error) {
            (None, None) => return Message::Invalid,
            (Some(result), None | Some("null")) => Ok(Outcome::Result(result)),
            (None | Some("null"), Some(error)) => Ok(Outcome::Error(error)),
            (Some(_), Some(_)) => Err(Error::data("both a result and an error")),
        };
        return Message::Response { id: fields.id.and_then(Result::ok), outcome };
    };
    let Ok(method) = method else { return Message::Invalid };
    let params_ok = fields.params.as_ref().is_none_or(|p| matches!(p.kind, Kind::Object | Kind::Array | Kind::Null));
    if !fields.version_ok || !params_ok {
        return Message::Invalid;
    }
    let id = match fields.id {
        None => None,
        Some(Ok(id)) if id.allowed(rule) => Some(id),
        Some(_) => return Message::Invalid,
    };
    let call = call(&method, fields.params, decode);
    match id {
        Some(id) => Message::Request { id, method, call },
        None => Message::Notification { method, call },
    }
}

fn call<C>(method: &str, params: Option<Params<'_, C>>, decode: Decoder<'_, C>) -> Call<C> {
    let text = match params {
        Some(Params { decoded: Some(call), .. }) => return call,
        Some(Params { kind: Kind::Array, .. }) => {
            return Call::Bad(Error::data("parameters by position are not used here"));
        }
        // Absent and null parameters are read as an empty object: methods without required fields work.
        None | Some(Params { kind: Kind::Null, .. }) => "{}",
        Some(params) => params.text,
    };
    match decode(method, &mut Reader::new(text)) {
        Ok(Some(call)) => Call::Known(call),
        Ok(None) => Call::Unknown,
        Err(error) => Call::Bad(error),
    }
}
