//! One WebSocket as a transport, the same for both sides: a text frame is a message, silence is tested, the end is said.

use crate::look::{Sight, look};
use crate::server::coming::Coming;
use crate::{PING_EVERY, SILENCE};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tieline_rpc::sync::Lock;
use tieline_rpc::{Id, ReadMessages, Transport, WriteMessages};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Message, WebSocketConfig};

/// A peer that takes nothing for so long gets nothing more.
const STALL: Duration = Duration::from_mins(1);
/// How long the last words may take.
const FAREWELL: Duration = Duration::from_secs(2);
/// Messages that wait to be written; the transport above has the buffer that counts.
const QUEUE: usize = 4;
/// So many messages before `initialize` are answered; then the peer is no client.
const PATIENCE: u8 = 3;

/// How large a message may be.
pub(crate) fn config(max_bytes: usize) -> WebSocketConfig {
    WebSocketConfig::default().max_message_size(Some(max_bytes)).max_frame_size(Some(max_bytes))
}

/// What the writing task is told.
enum Out {
    Text(String),
    Close(CloseCode, &'static str),
}

/// A transport over an open socket. `stop` ends it when it becomes true; `coming` counts what a client sends, which has
/// to say hello first; `ended` hears why reading ended, if not in good order.
pub(crate) fn transport<S>(
    socket: WebSocketStream<S>,
    stop: watch::Receiver<bool>,
    coming: Option<Arc<Coming>>,
    ended: impl Fn(String) + Send + 'static,
) -> Transport
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sink, stream) = socket.split();
    let (out, queue) = mpsc::channel(QUEUE);
    let door = coming.is_some().then(Arc::<Door>::default);
    tokio::spawn(write(sink, queue, stop));
    let silent_at = Instant::now() + SILENCE;
    let reader = Reader { stream, out: out.clone(), door: door.clone(), coming, silent_at, ended: Box::new(ended) };
    Transport::messages(reader, Writer { out: Some(out), door })
}

/// Whether `initialize` came, and was answered.
#[derive(Default)]
struct Door(Mutex<(Hello, u8)>);

#[derive(Default, PartialEq)]
enum Hello {
    #[default]
    Missing,
    Asked(Id),
    Done,
}

impl Door {
    /// Lets a message in, or says what is answered instead. `Err` if there is no use in going on.
    fn enter(&self, text: &str) -> Result<Option<String>, ()> {
        let Some(sight) = look(text) else {
            return Ok(Some(refusal(None, -32700, "Parse error")));
        };
        let (hello, strikes) = &mut *self.0.locked();
        let first = sight.looks().first();
        if let Some(id) = first.filter(|look| look.is("initialize")).and_then(|look| look.id.clone()) {
            if *hello != Hello::Missing {
                return Ok(Some(refusal(Some(&id), -32600, "Invalid Request: the connection is initialized already")));
            }
            *hello = Hello::Asked(id);
        } else if *hello == Hello::Missing {
            *strikes += 1;
            if *strikes > PATIENCE {
                return Err(());
            }
            let id = match &sight {
                Sight::One(look) if look.is_request() => look.id.as_ref(),
                // Nobody waits for an answer.
                _ => return Ok(Some(String::new())),
            };
            return Ok(Some(refusal(id, -32600, "Invalid Request: initialize comes first")));
        }
        Ok(None)
    }

    /// Sees what goes out: a hello that is refused can be said again.
    fn leave(&self, text: &str) {
        let (hello, _) = &mut *self.0.locked();
        if let Hello::Asked(id) = hello
            && let Some(sight) = look(text)
            && let Some(answer) = sight.looks().iter().find(|look| look.is_response() && look.id.as_ref() == Some(id))
        {
            *hello = if answer.is_error { Hello::Missing } else { Hello::Done };
        }
    }
}

/// An answer that says no.
pub(crate) fn refusal(id: Option<&Id>, code: i32, message: &str) -> String {
    let id = id.map_or_else(|| "null".to_owned(), id_text);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"{message}"}}}}"#)
}

fn id_text(id: &Id) -> String {
    let mut text = Vec::new();
    id.write(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}

struct Reader<S> {
    stream: SplitStream<WebSocketStream<S>>,
    out: mpsc::Sender<Out>,
    door: Option<Arc<Door>>,
    coming: Option<Arc<Coming>>,
    silent_at: Instant,
    ended: Box<dyn Fn(String) + Send>,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> ReadMessages for Reader<S> {
    async fn read(&mut self) -> io::Result<Option<Vec<u8>>> {
        let read = self.next().await;
        if let Err(error) = &read {
            (self.ended)(error.to_string());
        }
        read
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Reader<S> {
    async fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            let message = tokio::select! {
                biased;
                message = self.stream.next() => message,
                () = sleep_until(self.silent_at) => {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "the other side of the WebSocket is silent"));
                }
            };
            self.silent_at = Instant::now() + SILENCE;
            // Pings may come between the parts of a message; they keep nothing waiting for ever.
            if let Some(coming) = &self.coming {
                match &message {
                    Some(Ok(Message::Text(_) | Message::Binary(_))) => coming.is_whole(),
                    Some(Ok(Message::Ping(words) | Message::Pong(words))) => coming.is_beside(words.len()),
                    _ => {}
                }
                if coming.due().is_some_and(|due| due < Instant::now()) {
                    return self.refuse(CloseCode::Policy, "the message took too long");
                }
            }
            match message {
                Some(Ok(Message::Text(text))) => match self.door.as_ref().map_or(Ok(None), |door| door.enter(&text)) {
                    Ok(None) => return Ok(Some(text.as_bytes().to_vec())),
                    Ok(Some(answer)) if answer.is_empty() => {}
                    // If it does not even read our refusals, nothing is owed to it.
                    Ok(Some(answer)) => drop(self.out.try_send(Out::Text(answer))),
                    Err(()) => return self.refuse(CloseCode::Protocol, "initialize comes first"),
                },
                // Binary frames mean nothing here; pings are answered by the library.
                Some(Ok(Message::Binary(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                Some(Ok(Message::Close(Some(close)))) if close.code != CloseCode::Normal => {
                    let why: String = close.reason.chars().filter(|c| !c.is_control()).collect();
                    (self.ended)(format!("the WebSocket was closed ({}) {why}", u16::from(close.code)));
                    return Ok(None);
                }
                None | Some(Ok(Message::Close(_)) | Err(Error::ConnectionClosed | Error::AlreadyClosed)) => {
                    return Ok(None);
                }
                Some(Err(Error::Capacity(_))) => return self.refuse(CloseCode::Size, "the message is too long"),
                Some(Err(Error::Utf8(_))) => return self.refuse(CloseCode::Invalid, "text is UTF-8"),
                Some(Err(Error::Protocol(why))) => {
                    tracing::debug!(%why, "the WebSocket can't be followed");
                    return self.refuse(CloseCode::Protocol, "this is no WebSocket protocol");
                }
                Some(Err(error)) => {
                    // Whether it broke, or more came than there is room for: nothing is read any more, and that is said.
                    drop(self.out.try_send(Out::Close(CloseCode::Policy, "nothing more is read")));
                    return Err(io::Error::other(error));
                }
            }
        }
    }
}

impl<S> Reader<S> {
    fn refuse(&self, code: CloseCode, why: &'static str) -> io::Result<Option<Vec<u8>>> {
        drop(self.out.try_send(Out::Close(code, why)));
        Err(io::Error::other(why))
    }
}

struct Writer {
    out: Option<mpsc::Sender<Out>>,
    door: Option<Arc<Door>>,
}

impl WriteMessages for Writer {
    async fn write(&mut self, message: &[u8]) -> io::Result<()> {
        let text = String::from_utf8(message.to_vec()).map_err(io::Error::other)?;
        if let Some(door) = &self.door {
            door.leave(&text);
        }
        let Some(out) = &self.out else { return Err(io::ErrorKind::BrokenPipe.into()) };
        out.send(Out::Text(text)).await.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    async fn close(&mut self) {
        if let Some(out) = self.out.take() {
            drop(out.send(Out::Close(CloseCode::Normal, "")).await);
            out.closed().await;
        }
    }
}

/// Writes what is queued, pings in between, and says why it ends.
async fn write<S>(
    mut sink: SplitSink<WebSocketStream<S>, Message>,
    mut queue: mpsc::Receiver<Out>,
    mut stop: watch::Receiver<bool>,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut ping = interval_at(Instant::now() + PING_EVERY, PING_EVERY);
    ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (code, reason) = loop {
        let message = tokio::select! {
            out = queue.recv() => match out {
                Some(Out::Text(text)) => Message::text(text),
                Some(Out::Close(code, why)) => break (code, why),
                None => break (CloseCode::Normal, ""),
            },
            _ = ping.tick() => Message::Ping(Vec::new().into()),
            Ok(_) = stop.wait_for(|stop| *stop) => break (CloseCode::Away, "the server stops"),
        };
        match timeout(STALL, sink.send(message)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return,
            Err(_) => break (CloseCode::Policy, "nothing is read"),
        }
    };
    let farewell = Message::Close(Some(CloseFrame { code, reason: reason.into() }));
    let _ = timeout(FAREWELL, async {
        sink.send(farewell).await?;
        sink.close().await
    })
    .await;
}
