//! A few connections to the database, made again when they are lost; statements are prepared once on each.

use super::tls::Tls;
use crate::store::{Error, Result};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tieline_rpc::sync::Lock as _;
use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, Row, Statement};

/// Each has one statement at work; sessions are spread over them.
const LANES: usize = 4;
/// Pauses between attempts begin with this and double up to the next.
const PAUSE: Duration = Duration::from_millis(50);
const MAX_PAUSE: Duration = Duration::from_millis(500);

pub(super) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

pub(super) struct Lanes {
    config: Config,
    tls: Tls,
    /// One attempt takes no longer.
    limit: Duration,
    links: [tokio::sync::Mutex<Option<Arc<Link>>>; LANES],
}

/// A connection.
pub(super) struct Link {
    client: Client,
    known: Mutex<HashMap<&'static str, Statement>>,
}

impl Link {
    async fn rows(
        &self,
        sql: &'static str,
        params: Params<'_>,
    ) -> std::result::Result<Vec<Row>, tokio_postgres::Error> {
        let known = self.known.locked().get(sql).cloned();
        let statement = match known {
            Some(statement) => statement,
            None => {
                let statement = self.client.prepare(sql).await?;
                self.known.locked().insert(sql, statement.clone());
                statement
            }
        };
        self.client.query(&statement, params).await
    }
}

impl Lanes {
    pub(super) fn new(config: Config, tls: Tls, limit: Duration) -> Self {
        Self { config, tls, limit, links: Default::default() }
    }

    /// How long one attempt may take.
    pub(super) fn limit(&self) -> Duration {
        self.limit
    }

    /// A new connection, with what has to be polled so that it works and hears notifications.
    pub(super) async fn connect(
        &self,
    ) -> Result<(Client, tokio_postgres::Connection<tokio_postgres::Socket, super::tls::Secured<tokio_postgres::Socket>>)>
    {
        let connected = timeout(self.limit, self.config.connect(self.tls.clone())).await;
        connected.map_err(|_| Error::Away("it can't be reached in time".to_owned()))?.map_err(|error| failed(&error))
    }

    async fn link(&self, lane: i64) -> Result<Arc<Link>> {
        let mut lane = self.links[usize::try_from(lane.unsigned_abs()).unwrap_or(0) % LANES].lock().await;
        if let Some(link) = lane.as_ref().filter(|link| !link.client.is_closed()) {
            return Ok(Arc::clone(link));
        }
        let (client, connection) = self.connect().await?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to the database ended");
            }
        });
        let link = Arc::new(Link { client, known: Mutex::default() });
        *lane = Some(Arc::clone(&link));
        Ok(link)
    }

    /// Asks once. What was asked may have been done if there is no answer.
    pub(super) async fn once(&self, lane: i64, sql: &'static str, params: Params<'_>) -> Result<Vec<Row>> {
        let link = self.link(lane).await?;
        match timeout(self.limit, link.rows(sql, params)).await {
            Ok(rows) => rows.map_err(|error| failed(&error)),
            Err(_) => {
                // Nobody waits behind a statement that hangs.
                let at = usize::try_from(lane.unsigned_abs()).unwrap_or(0) % LANES;
                self.links[at].lock().await.take_if(|known| Arc::ptr_eq(known, &link));
                Err(Error::Away("it does not answer in time".to_owned()))
            }
        }
    }

    /// Asks for what may be asked again, until there is an answer or the database was away for too long.
    pub(super) async fn ask(&self, lane: i64, sql: &'static str, params: Params<'_>) -> Result<Vec<Row>> {
        let (begun, mut pause) = (Instant::now(), Pause::default());
        loop {
            match self.once(lane, sql, params).await {
                Err(Error::Away(_)) if begun.elapsed() < self.limit * 2 => pause.wait().await,
                done => return done,
            }
        }
    }
}

/// Waits longer each time.
#[derive(Default)]
pub(super) struct Pause(u32);

impl Pause {
    pub(super) async fn wait(&mut self) {
        sleep((PAUSE * 2_u32.pow(self.0.min(4))).min(MAX_PAUSE)).await;
        self.0 += 1;
    }
}

/// What an error means here. Nothing of it repeats the address.
pub(super) fn failed(error: &tokio_postgres::Error) -> Error {
    let Some(database) = error.as_db_error() else {
        let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
        return Error::Away(format!("{error}{cause}"));
    };
    let passing = [
        &SqlState::ADMIN_SHUTDOWN,
        &SqlState::CRASH_SHUTDOWN,
        &SqlState::CANNOT_CONNECT_NOW,
        &SqlState::TOO_MANY_CONNECTIONS,
        &SqlState::T_R_SERIALIZATION_FAILURE,
        &SqlState::T_R_DEADLOCK_DETECTED,
        // Connected to one that is not the first any more.
        &SqlState::READ_ONLY_SQL_TRANSACTION,
    ];
    match database.code() {
        code if passing.contains(&code) => Error::Away(database.message().to_owned()),
        &SqlState::DISK_FULL => Error::Full,
        _ => Error::Failed(database.message().to_owned()),
    }
}
