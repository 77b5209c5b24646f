//! The tables in the database, their version, and the steps that lead from one version to the next.

use super::lanes::{Lanes, failed};
use crate::store::{Error, Result};

/// Each step makes the next version. Steps are only ever added at the end.
const STEPS: &[&str] = &[V1];

/// `touched` orders the list, `head` is the seq of the last event. `epoch` grows with each owner of a session and is asked for by every
/// write to its log; `until` is the end of its lease, and nothing if nobody has it; `token` is that of the attempt that made the lease, so that
/// it can be tried again. `inbox` has commands for owners: `taken` is the epoch of who took one, `gone` says that who took it is.
const V1: &str = "
CREATE TABLE tieline.session (
    key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text NOT NULL UNIQUE,
    agent text NOT NULL,
    cwd text NOT NULL,
    directories text NOT NULL,
    title text,
    named boolean NOT NULL DEFAULT false,
    created bigint NOT NULL,
    updated bigint NOT NULL,
    touched bigint NOT NULL UNIQUE,
    options text,
    meta text,
    head bigint NOT NULL DEFAULT 0,
    turn bigint NOT NULL DEFAULT 0,
    running boolean NOT NULL DEFAULT false,
    bytes bigint NOT NULL DEFAULT 0,
    epoch bigint NOT NULL DEFAULT 1,
    token bigint NOT NULL,
    until timestamptz,
    pid bigint NOT NULL,
    start bigint NOT NULL,
    host text NOT NULL,
    boot text NOT NULL,
    space text NOT NULL,
    since bigint NOT NULL
);
CREATE INDEX session_cwd ON tieline.session (cwd, touched);
CREATE SEQUENCE tieline.touch;
CREATE TABLE tieline.event (
    session bigint NOT NULL REFERENCES tieline.session ON DELETE CASCADE,
    seq bigint NOT NULL,
    turn bigint NOT NULL,
    time bigint NOT NULL,
    kind text NOT NULL,
    body text NOT NULL,
    crc bigint NOT NULL,
    PRIMARY KEY (session, seq)
);
CREATE TABLE tieline.passage (
    session bigint NOT NULL REFERENCES tieline.session ON DELETE CASCADE,
    turn bigint NOT NULL,
    text text NOT NULL,
    words tsvector GENERATED ALWAYS AS (to_tsvector('simple', text)) STORED,
    PRIMARY KEY (session, turn)
);
CREATE INDEX passage_words ON tieline.passage USING gin (words);
CREATE TABLE tieline.inbox (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE,
    session bigint NOT NULL REFERENCES tieline.session ON DELETE CASCADE,
    body text NOT NULL,
    made timestamptz NOT NULL DEFAULT now(),
    taken bigint,
    gone boolean NOT NULL DEFAULT false,
    answer text
);
CREATE INDEX inbox_session ON tieline.inbox (session);
";

/// Keeps two nodes that start at once from doing the same: any number that is ours.
const LOCK: i64 = 0x5469_654c;

/// Takes the steps that are missing, all or none.
pub(super) async fn migrate(lanes: &Lanes) -> Result<()> {
    let (mut client, connection) = lanes.connect().await?;
    let running = tokio::spawn(connection);
    let done = async {
        let step = client.transaction().await?;
        step.execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK]).await?;
        step.batch_execute(
            "CREATE SCHEMA IF NOT EXISTS tieline; CREATE TABLE IF NOT EXISTS tieline.layout (version integer NOT NULL)",
        )
        .await?;
        let found: i32 = step.query_one("SELECT coalesce(max(version), 0) FROM tieline.layout", &[]).await?.get(0);
        let known = i32::try_from(STEPS.len()).unwrap_or(i32::MAX);
        if found > known {
            return Ok(Err((found, known)));
        }
        for (number, sql) in (1..).zip(STEPS).skip(usize::try_from(found).unwrap_or(0)) {
            step.batch_execute(sql).await?;
            step.execute("INSERT INTO tieline.layout (version) VALUES ($1)", &[&number]).await?;
        }
        step.commit().await?;
        Ok(Ok(()))
    };
    let done = done.await;
    running.abort();
    done.map_err(|error| failed(&error))?.map_err(|(found, known)| {
        Error::Failed(format!(
            "the tables were made by a newer Tieline (layout {found}, known here: {known}); update Tieline"
        ))
    })
}
