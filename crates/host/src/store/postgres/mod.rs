//! Sessions in `PostgreSQL`, shared by several machines ([`Postgres`] is one [`Home`](super::Home)).
//!
//! * **One owner per session.** It has a lease by the database's clock, and a number, the epoch, that grows with each owner. The
//!   statement that appends asks for the epoch: whoever was replaced stores nothing.
//! * **An owner that can't renew stops first.** After two thirds of the lease without an answer of the database its sessions
//!   are given up here, before anybody else may take them.
//! * **An append is there once.** It asks where the log stood, too: one whose answer was lost is recognised when it is tried again.
//! * **`NOTIFY` is a doorbell**, sent beside the appends, many in one; what it says is read from the tables, and looked for each second anyway.

mod bell;
mod find;
mod inbox;
mod lanes;
mod log;
mod schema;
mod tls;

use super::follow::{Follow, head_of};
use super::{Error, Result};
use bell::Bell;
use lanes::{Lanes, failed};
use log::Hold;
use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use tieline_rpc::sync::Lock as _;
use tieline_schema::SessionId;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;

/// Sessions in `PostgreSQL`. Cloning it gives another handle on the same one.
#[derive(Clone)]
pub struct Postgres(Arc<Inner>);

/// How a node shares its sessions.
#[derive(Clone)]
pub struct NodeSettings {
    /// How long a session stays with a node that is silent.
    pub lease: Duration,
    /// How a connection is made secure, where the address or the server asks for that.
    pub tls: TlsConnector,
}

struct Inner {
    lanes: Lanes,
    lease: Duration,
    /// What followers of this database are told apart by, within this process.
    name: PathBuf,
    /// The sessions that are open here, by their keys.
    holds: Mutex<HashMap<i64, Weak<Hold>>>,
    /// How many sessions are being let go.
    leaving: watch::Sender<usize>,
    bell: Arc<Bell>,
    /// When the last renewal that went well was begun.
    reached: Mutex<Instant>,
    tasks: Mutex<Vec<AbortHandle>>,
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Postgres")
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.tasks.locked().drain(..).for_each(|task| task.abort());
    }
}

impl Postgres {
    /// Connects to a database (`postgres://…`, or words as libpq takes them) and brings its tables up to date.
    pub async fn connect(address: &str, settings: NodeSettings) -> Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        // What is wrong with it is said without repeating it: it may hold a password.
        let mut config: tokio_postgres::Config = address.parse().map_err(|error| failed(&error))?;
        let third = settings.lease / 3;
        config.application_name("tieline").connect_timeout(third).keepalives_idle(third);
        let lanes = Lanes::new(config, tls::Tls(settings.tls), third);
        schema::migrate(&lanes).await?;
        let name = PathBuf::from(format!("postgres:{}", COUNT.fetch_add(1, Ordering::Relaxed)));
        let home = Self(Arc::new(Inner {
            lanes,
            lease: settings.lease,
            name,
            holds: Mutex::default(),
            leaving: watch::Sender::new(0),
            bell: Arc::default(),
            reached: Mutex::new(Instant::now()),
            tasks: Mutex::default(),
        }));
        let tasks = [
            tokio::spawn(bell::ring(Arc::downgrade(&home.0))).abort_handle(),
            tokio::spawn(log::renew(Arc::downgrade(&home.0))).abort_handle(),
        ];
        home.0.tasks.locked().extend(tasks);
        Ok(home)
    }

    /// Waits for more of a session, whoever writes it.
    fn watch(&self, name: &str) -> Follow {
        Follow::of(head_of(&self.0.name, &SessionId::from(name)))
    }
}

impl Inner {
    /// How long the database may be silent until this node gives up its sessions.
    fn patience(&self) -> Duration {
        self.lease * 2 / 3
    }

    fn holds(&self) -> Vec<Arc<Hold>> {
        self.holds.locked().values().filter_map(Weak::upgrade).collect()
    }
}

/// Why a session is given up here when the database is silent.
fn silent(since: Duration) -> Error {
    Error::Away(format!(
        "the database has not answered for {} s; the session stops here, and goes on where it is next asked for",
        since.as_secs()
    ))
}
