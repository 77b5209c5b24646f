//! Answers what a server asks of us: the roots, a question to the user; and hears what it reports. Requests for the
//! user's model (sampling) are refused by default: a server has no say over it.

// Roots are on their way out of the protocol; servers still ask for them.
#![expect(deprecated)]

use super::elicit;
use super::link::Link;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use rmcp::model::{
    ClientCapabilities, ClientConfig, CustomNotification, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationCapability, FormElicitationCapability, Implementation, ListRootsResult, ProgressNotificationParam, Root,
    RootsCapabilities, UrlElicitationCapability,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ClientHandler, ErrorData, RoleClient};
use std::path::PathBuf;
use std::sync::Arc;
use tieline::agent::SessionHandle;

/// Our side of a connection.
pub struct Desk {
    /// What people call the server.
    pub name: String,
    /// The folders of the session.
    pub roots: Arc<[PathBuf]>,
    /// The way to the user.
    pub session: SessionHandle,
    /// What the parts of the connection know.
    pub link: Arc<Link>,
    /// Held while the user is asked something, so that a server asks one thing at a time.
    pub asking: tokio::sync::Mutex<()>,
}

/// What a server says when the user is done with a page.
const PAGE_DONE: &str = "notifications/elicitation/complete";

impl ClientHandler for Desk {
    fn get_info(&self) -> ClientConfig {
        let client = self.session.client();
        let can = client.capabilities();
        let mut offered = ClientCapabilities::default();
        offered.roots = Some(RootsCapabilities::default());
        if can.elicit_form || can.elicit_url {
            let mut ways = ElicitationCapability::new();
            ways.form = can.elicit_form.then(FormElicitationCapability::default);
            ways.url = can.elicit_url.then(UrlElicitationCapability::default);
            offered.elicitation = Some(ways);
        }
        ClientConfig::new(offered, Implementation::new("tieline", env!("CARGO_PKG_VERSION")))
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        let root = |path: &PathBuf| Root::new(file_uri(path));
        Ok(ListRootsResult::new(self.roots.iter().map(root).collect()))
    }

    async fn create_elicitation(
        &self,
        params: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        // Only a server that works for us may ask, and one question at a time.
        let (true, Ok(_asking)) = (self.link.is_busy(), self.asking.try_lock()) else {
            return Ok(ElicitResult::new(ElicitationAction::Decline));
        };
        let client = self.session.client();
        tokio::select! {
            answer = elicit::ask(&client, &self.name, &self.link.pages, params) => Ok(answer),
            () = context.ct.cancelled() => Ok(ElicitResult::new(ElicitationAction::Cancel)),
            () = self.link.idle() => Ok(ElicitResult::new(ElicitationAction::Cancel)),
            _ = self.link.ended() => Ok(ElicitResult::new(ElicitationAction::Cancel)),
        }
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.link.advance(params);
    }

    async fn on_custom_notification(&self, notification: CustomNotification, _: NotificationContext<RoleClient>) {
        let params = notification.params.unwrap_or_default();
        let (PAGE_DONE, Some(id)) = (&*notification.method, params["elicitationId"].as_str()) else { return };
        if let Some(ours) = self.link.pages.done(id) {
            let _ = self.session.client().elicitation_complete(ours).await;
        }
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.link.changed.notify_one();
    }
}

/// A folder as an address.
fn file_uri(path: &std::path::Path) -> String {
    const PLAIN: AsciiSet = NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'_').remove(b'.').remove(b'~');
    format!("file://{}", percent_encode(path.as_os_str().as_encoded_bytes(), &PLAIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_as_addresses() {
        for (path, expect) in [("/home/me/a-b", "file:///home/me/a-b"), ("/a b/é?", "file:///a%20b/%C3%A9%3F")] {
            assert_eq!(file_uri(std::path::Path::new(path)), expect);
        }
    }
}
