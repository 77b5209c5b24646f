//! What is seen of a server from outside: figures for Prometheus, a log of who answered what, and a call to an address when somebody is wanted.

use http::{Request, Uri};
use hyper::body::Bytes;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tieline::rpc::sync::Lock as _;
use tieline::schema::PermissionOptionKind;
use tieline_client::live::{Asked, Reply, What};
use tieline_client::permission::Answer;
use tieline_client::sanitize;
use tieline_host::store::Time;
use tieline_host::text::cut;
use tieline_web::Http;
use tokio::sync::mpsc;
use tokio::time::sleep;

/// So many calls wait; more are not made.
const MAX_CALLS: usize = 64;
/// A call is tried again after these times, if it may help.
const AGAIN: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(5)];
/// For the answer to a call.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// As much of a title as is told, in characters.
const MAX_TITLE_CHARS: usize = 200;
/// Answers, as the log has them.
const ALLOWED_ONCE: &str = "allowed once";
const ALLOWED_ALWAYS: &str = "allowed always";
const REFUSED: &str = "refused";
const REFUSED_ALWAYS: &str = "refused always";
const NOBODY: &str = "nobody";
/// A log of this size, in bytes, makes room for a new one; one older is kept.
const MAX_LOG_BYTES: u64 = 16 << 20;

/// Figures of a server since it began. Nothing in them says what is worked on.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    turns: AtomicU64,
    failed: AtomicU64,
    asked: AtomicU64,
    answered: AtomicU64,
    called: AtomicU64,
    uncalled: AtomicU64,
}

/// Watches over a server.
#[derive(Debug, Default)]
pub struct Watch {
    figures: Arc<Figures>,
    calls: Option<mpsc::Sender<Bytes>>,
    log: Option<Mutex<PathBuf>>,
}

/// What is true now, for [`Watch::page`].
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Now {
    pub sessions: usize,
    pub questions: usize,
    pub clients: usize,
    pub waiting_bytes: usize,
    /// For how long the store of several nodes has not been reached.
    pub away: Duration,
}

impl Watch {
    /// Writes who answered what into this file, for the user alone, one JSON object in each line.
    #[must_use]
    pub fn log(mut self, path: PathBuf) -> Self {
        self.log = Some(Mutex::new(path));
        self
    }

    /// Tells this address when a question waits and when a turn ends. To be called within a runtime; `None` if it is no address.
    pub fn call(mut self, address: &str) -> Option<Self> {
        let address: Uri = address.parse().ok()?;
        if !matches!(address.scheme_str(), Some("http" | "https")) || address.host().is_none_or(str::is_empty) {
            return None;
        }
        let (calls, waiting) = mpsc::channel(MAX_CALLS);
        tokio::spawn(make_calls(waiting, address, Http::default(), Arc::clone(&self.figures)));
        self.calls = Some(calls);
        Some(self)
    }

    /// A question waits.
    pub(crate) fn asked(&self, session: &str, asked: &Asked) {
        self.figures.asked.fetch_add(1, Relaxed);
        self.tell(json!({ "event": "question", "session": session, "question": kind(&asked.what), "title": title(&asked.what) }));
    }

    /// A turn is over.
    pub(crate) fn ended(&self, session: &str, stop: Option<&str>) {
        self.figures.turns.fetch_add(1, Relaxed);
        self.figures.failed.fetch_add(u64::from(stop.is_none()), Relaxed);
        self.tell(json!({ "event": "turn_ended", "session": session, "stop_reason": stop.unwrap_or("error") }));
    }

    /// Somebody's answer counted.
    pub(crate) fn answered(&self, who: &str, session: &str, asked: &Asked, answer: &Word) {
        self.figures.answered.fetch_add(1, Relaxed);
        let Some(path) = &self.log else { return };
        let mut line = json!({
            "at": Time::now().to_string(), "who": who, "session": session, "question": kind(&asked.what),
            "title": title(&asked.what), "answer": answer.ours,
        });
        if let Some(option) = &answer.option {
            line["option"] = option.as_str().into();
        }
        if let Err(error) = append(&path.locked(), &line) {
            tracing::error!(%error, "the log of answers can't be written");
        }
    }

    fn tell(&self, mut event: Value) {
        let Some(calls) = &self.calls else { return };
        event["at"] = Time::now().to_string().into();
        // Nobody waits for who is called.
        if calls.try_send(event.to_string().into()).is_err() {
            self.figures.uncalled.fetch_add(1, Relaxed);
        }
    }

    /// The figures, as Prometheus reads them.
    pub(crate) fn page(&self, now: Now) -> String {
        let figures = &self.figures;
        let count = |number: &AtomicU64| number.load(Relaxed);
        let rows = [
            ("sessions", "gauge", "Sessions that are live.", now.sessions as u64),
            ("questions", "gauge", "Questions that wait for an answer.", now.questions as u64),
            ("clients", "gauge", "Clients that are connected.", now.clients as u64),
            ("waiting_bytes", "gauge", "Bytes that wait for readers of event streams.", now.waiting_bytes as u64),
            (
                "store_away_seconds",
                "gauge",
                "For how long the store of several nodes has not answered.",
                now.away.as_secs(),
            ),
            ("turns_total", "counter", "Turns that have ended.", count(&figures.turns)),
            ("turns_failed_total", "counter", "Turns that ended with an error.", count(&figures.failed)),
            ("questions_total", "counter", "Questions that were asked.", count(&figures.asked)),
            ("answers_total", "counter", "Answers of clients that counted.", count(&figures.answered)),
            ("webhook_calls_total", "counter", "Calls of the webhook that were taken.", count(&figures.called)),
            ("webhook_lost_total", "counter", "Calls of the webhook that were given up.", count(&figures.uncalled)),
        ];
        rows.iter().fold(String::new(), |mut page, (name, kind, help, value)| {
            let _ =
                write!(page, "# HELP tieline_{name} {help}\n# TYPE tieline_{name} {kind}\ntieline_{name} {value}\n");
            page
        })
    }
}

fn kind(what: &What) -> &'static str {
    match what {
        What::Permission(_) => "permission",
        What::Form(_) => "form",
        What::Page(_) => "page",
        What::Login(_) | What::Terminal(_) => "login",
    }
}

fn title(what: &What) -> String {
    let words = match what {
        What::Permission(question) => &*question.title,
        What::Form(form) => &form.message,
        What::Page(page) => &page.message,
        What::Login(_) | What::Terminal(_) => "",
    };
    sanitize::line(&cut(words, MAX_TITLE_CHARS))
}

/// An answer in a word of ours, and the agent's option that it picks.
pub(crate) struct Word {
    pub ours: String,
    pub option: Option<String>,
}

/// An answer in a word, told by what it does: what an option is called is the agent's. What was filled in stays between those two.
pub(crate) fn word(what: &What, reply: &Reply) -> Word {
    let ours = match reply {
        Reply::Permission(Answer::Option(id)) => picked(what, id).to_owned(),
        Reply::Permission(Answer::Allow) => ALLOWED_ONCE.to_owned(),
        Reply::Permission(Answer::AllowFor(_)) => ALLOWED_ALWAYS.to_owned(),
        Reply::Permission(Answer::Refuse) => REFUSED.to_owned(),
        Reply::Permission(Answer::RefuseFor(_)) => REFUSED_ALWAYS.to_owned(),
        Reply::Permission(Answer::Nobody) => NOBODY.to_owned(),
        Reply::Form(filled) => first_word(filled),
        Reply::Page(consent) => first_word(consent),
        Reply::Login(_) | Reply::Terminal => "login".to_owned(),
    };
    let option = match reply {
        Reply::Permission(Answer::Option(id)) => Some(sanitize::line(&cut(id, MAX_TITLE_CHARS))),
        _ => None,
    };
    Word { ours, option }
}

/// What the option of this id does. One that can't be told from another cancels the question in the engine.
fn picked(what: &What, id: &str) -> &'static str {
    let What::Permission(question) = what else { return NOBODY };
    let mut kinds = question.options.iter().filter(|option| option.option_id == id).map(|option| &option.kind);
    let Some(kind) = kinds.next() else { return REFUSED };
    match kind {
        _ if kinds.any(|other| other != kind) => "cancelled",
        PermissionOptionKind::AllowOnce => ALLOWED_ONCE,
        PermissionOptionKind::AllowAlways => ALLOWED_ALWAYS,
        PermissionOptionKind::RejectOnce => REFUSED,
        PermissionOptionKind::RejectAlways => REFUSED_ALWAYS,
        PermissionOptionKind::Other(_) => "neither yes nor no",
    }
}

fn first_word(value: &impl std::fmt::Debug) -> String {
    let word = format!("{value:?}");
    word.split(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default().to_lowercase()
}

fn append(path: &Path, line: &Value) -> std::io::Result<()> {
    if path.metadata().is_ok_and(|known| known.len() > MAX_LOG_BYTES) {
        std::fs::rename(path, path.with_extension("old.jsonl"))?;
    }
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    // In one write: another server of this user may write there, too.
    options.open(path)?.write_all(format!("{line}\n").as_bytes())
}

/// Makes calls, one after the other.
async fn make_calls(mut waiting: mpsc::Receiver<Bytes>, address: Uri, http: Http, figures: Arc<Figures>) {
    let http = http.times(CALL_TIMEOUT, Some(CALL_TIMEOUT));
    while let Some(body) = waiting.recv().await {
        let mut pauses = AGAIN.into_iter();
        let taken = loop {
            let why = match call(&http, &address, body.clone()).await {
                Ok(status) if status.is_success() => break true,
                // It will not change its mind.
                Ok(status) if status.is_client_error() => {
                    tracing::warn!(%status, "the webhook refuses a call");
                    break false;
                }
                Ok(status) => status.to_string(),
                Err(why) => why,
            };
            // The address itself may be a secret.
            tracing::warn!(why, "the webhook can't be called");
            let Some(pause) = pauses.next() else { break false };
            sleep(pause).await;
        };
        let figure = if taken { &figures.called } else { &figures.uncalled };
        figure.fetch_add(1, Relaxed);
    }
}

async fn call(http: &Http, address: &Uri, body: Bytes) -> Result<http::StatusCode, String> {
    let request = Request::post(address).header("content-type", "application/json").body(body);
    let request = request.map_err(|_| "the address makes no sense".to_owned())?;
    http.send(request).await.map(|answer| answer.status()).map_err(|error| format!("{:?}", error.phase))
}
