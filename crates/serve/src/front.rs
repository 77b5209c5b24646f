//! What a client sees of a server: an agent whose sessions it may share with others.

use crate::attachment::{Attachment, Coming, Way};
use crate::extras;
use crate::hub::{Hub, Role, Visitor, Wanted};
use crate::log::Position;
use crate::nodes::Command;
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;
use tieline::agent::{About, Agent, ClientHandle, Opened, Opening, Resuming, SessionHandle};
use tieline::rpc::Cancel;
use tieline::schema::{ListRequest, ListResponse, Meta, Raw, SessionId, SessionInfo, Severity, data_field};
use tieline::{Error, Result};
use tieline_host::store::ListQuery;

/// So many sessions are on one page of a list.
const PAGE_SIZE: usize = 50;

/// The last position of a session that the client has, if it said one beside its messages.
type Stopped = Box<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// A server, as one client sees it.
pub(crate) struct Front {
    hub: Hub,
    visitor: Visitor,
    /// Ends the connection.
    over: Cancel,
    stopped: Stopped,
    /// Held while a session is told again.
    replaying: tokio::sync::Mutex<()>,
}

impl Front {
    pub(crate) fn new(hub: Hub, visitor: Visitor, over: Cancel, stopped: Stopped) -> Self {
        Self { hub, visitor, over, stopped, replaying: tokio::sync::Mutex::default() }
    }

    fn may(&self, role: Role, what: &str) -> Result<()> {
        if self.visitor.role >= role {
            return Ok(());
        }
        Err(Error::wire(-32603, format!("this token may not {what}")))
    }

    fn coming<'a>(&'a self, session: &SessionHandle, replay: bool, after: Option<&'a str>) -> Coming<'a> {
        let Visitor { name, role } = &self.visitor;
        let (session, over) = (session.clone(), self.over.clone());
        Coming { session, name, role: *role, replay, after, way: Way::TakesUp, only_new: false, over }
    }
}

impl Agent for Front {
    type Session = Attachment;

    fn about(&self) -> About {
        let mut about = About::new("tieline", env!("CARGO_PKG_VERSION"));
        let can = &mut about.capabilities;
        (can.load, can.list, can.resume, can.close, can.delete, can.attach) = (true, true, true, true, true, true);
        (can.image, can.audio, can.embedded_context, can.additional_directories) = (true, true, true, true);
        let settings = self.hub.settings();
        let role = format!("{:?}", self.visitor.role).to_lowercase();
        let server =
            json!({ "folder": settings.folder, "agents": settings.agents, "role": role, "you": self.visitor.name });
        about.meta = Some(Meta(json!({ "tieline": server }).into()));
        about
    }

    async fn open(&self, opening: Opening) -> Result<Opened<Attachment>> {
        self.may(Role::Use, "open sessions")?;
        let ours: Option<Raw> = opening.meta.as_ref().and_then(|meta| data_field(&meta.0, "tieline"));
        let agent = ours.as_ref().and_then(|ours| data_field(ours, "agent"));
        let wanted = Wanted {
            agent,
            cwd: PathBuf::from(&opening.cwd),
            roots: opening.additional_directories.iter().map(PathBuf::from).collect(),
            resume: None,
        };
        let room = self.hub.open(wanted, &self.visitor.name).await?;
        opening.session.set_id(room.id().into());
        let coming = Coming { way: Way::Opens, ..self.coming(&opening.session, false, None) };
        let opened = Attachment::open(room, coming).await?;
        if !opening.mcp_servers.is_empty() {
            // They would be programs on this machine, started because somebody elsewhere says so.
            let words = "MCP servers of clients are not started here; name them in the configuration of the server.";
            opening.session.notice(Severity::Warning, words).await?;
        }
        opened.ok_or_else(|| Error::wire(-32603, "the session ended at once"))
    }

    async fn resume(&self, resuming: Resuming) -> Result<Opened<Attachment>> {
        let (id, replay) = (resuming.session.id().to_string(), resuming.replay);
        let after = Position::wanted(resuming.meta.as_ref()).or_else(|| (self.stopped)(&id));
        // Who says `session/attach` joins what lives.
        let attach: Option<Raw> = resuming.meta.as_ref().and_then(|meta| data_field(&meta.0, "attach"));
        let said = |name: &str, word: &str| {
            attach.as_ref().and_then(|attach| data_field::<String>(attach, name)).is_some_and(|said| said == word)
        };
        loop {
            let room = match self.hub.live(&id) {
                Some(room) => room,
                None if attach.is_some() => {
                    let found = self.hub.find(&id, &self.visitor.name, false).await;
                    found.map_err(|_| {
                        Error::wire(-32001, "no such session is live; session/load wakes one that sleeps")
                    })?
                }
                // To look on starts no agent.
                None => self.hub.find(&id, &self.visitor.name, self.visitor.role >= Role::Use).await?,
            };
            // One at a time: what is told again is held in memory until the client has taken it.
            let _one = self.replaying.lock().await;
            let _held = if replay { Some(self.hub.replay(&self.visitor.name).await) } else { None };
            let mut coming = self.coming(&resuming.session, replay, after.as_deref());
            if attach.is_some() {
                (coming.way, coming.only_new) = (Way::Attaches, said("historyPolicy", "none"));
            }
            if said("role", "observer") {
                coming.role = Role::Read;
            }
            let opened = Attachment::open(Arc::clone(&room), coming).await?;
            if let Some(opened) = opened {
                return Ok(opened);
            }
            // It falls asleep just now: it is woken when it has.
            room.ended().await;
            self.hub.forget(&room);
        }
    }

    async fn list(&self, request: ListRequest) -> Result<Option<ListResponse>> {
        let query = ListQuery {
            cwd: request.cwd,
            begun: true,
            cursor: request.cursor,
            limit: PAGE_SIZE,
            ..ListQuery::default()
        };
        let (entries, next_cursor) = self.hub.list(query).await?;
        let info = |entry: tieline_client::journal::Entry| {
            let live = self.hub.live(&entry.id);
            let state = live.as_ref().and_then(|room| room.state()).map(|state| format!("{state:?}").to_lowercase());
            // One that another node has is known by its row.
            let shared = self.hub.journal().shared().and(entry.holder.as_ref());
            let state = state.or_else(|| shared.map(|_| format!("{:?}", entry.state).to_lowercase()));
            let clients = live.map_or(0, |room| room.people());
            let known = json!({ "agent": entry.agent, "state": state, "clients": clients, "turns": entry.turns });
            SessionInfo {
                session_id: entry.id.clone(),
                cwd: entry.cwd.clone(),
                title: entry.title.clone(),
                updated_at: Some(entry.updated.to_string()),
                meta: Some(Meta(json!({ "tieline": known }).into())),
                ..SessionInfo::default()
            }
        };
        let sessions = entries.into_iter().map(info).collect();
        Ok(Some(ListResponse { sessions, next_cursor, ..ListResponse::default() }))
    }

    async fn extension(&self, method: String, params: Raw, _: ClientHandle) -> Result<Raw> {
        extras::answer(&self.hub, &self.visitor, &method, &params).await
    }

    async fn delete(&self, id: SessionId) -> Result<()> {
        self.may(Role::Admin, "delete sessions")?;
        let mut room = self.hub.live(&id);
        if room.is_none() && self.hub.holder(&id).await.is_some() {
            room = Some(self.hub.find(&id, &self.visitor.name, false).await?);
        }
        if let Some(room) = room {
            let busy = Error::wire(-32603, "somebody is on this session");
            if room.seat().is_none() {
                room.call(Command::Close).await?;
            } else if !room.close_behind(None) {
                return Err(busy);
            } else {
                room.ended().await;
            }
        }
        match self.hub.entry(&id).await {
            Ok(_) => {}
            // What is not there need not be deleted.
            Err(Error::Wire(error)) if error.code == -32002 => return Ok(()),
            Err(error) => return Err(error),
        }
        match self.hub.journal().delete(&id).await {
            Err(error) if !error.is_no_session() => Err(Error::internal(error)),
            _ => Ok(()),
        }
    }
}
