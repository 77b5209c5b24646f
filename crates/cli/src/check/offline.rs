//! A scripted model for an agent that is judged, and an environment in which it finds nothing else.

use crate::shared::{Failed, WRONG};
use clap::builder::{PossibleValue, PossibleValuesParser};
use std::ffi::OsString;
use std::io;
use tempfile::TempDir;
use tieline_client::journal::Journal;
use tieline_model_server::{ModelServer, PROFILES, Profile, builtin};

/// What an agent is given of our own environment. Keys and addresses of real providers are not among it.
const KEPT: [&str; 9] = ["PATH", "LANG", "LC_ALL", "TERM", "TMPDIR", "USER", "LOGNAME", "SHELL", "TZ"];

/// The model, and the home folder; both end with this.
pub struct Offline {
    _server: ModelServer,
    _home: TempDir,
    environment: Vec<(OsString, OsString)>,
}

/// The profiles, for help and completion.
pub fn profiles() -> PossibleValuesParser {
    PROFILES.map(|profile| PossibleValue::new(profile.name).help(profile.about)).into()
}

impl Offline {
    /// Starts the model, and makes the agent's home.
    pub async fn start(profile: &str) -> Result<Self, Failed> {
        Self::try_start(profile).await.map_err(|error| (WRONG, format!("the model server: {error}")))
    }

    async fn try_start(profile: &str) -> io::Result<Self> {
        let missing = || io::Error::from(io::ErrorKind::NotFound);
        let profile = Profile::named(profile).ok_or_else(missing)?;
        // Agents send fields of their own, and are not judged by how they ask a model.
        let server = ModelServer::start(builtin("directives").ok_or_else(missing)?.compatible()).await?;
        // Some agents put their helpers into their home, and refuse to have that among temporary files.
        let state = Journal::default_path().map_err(io::Error::other)?.with_file_name("check");
        std::fs::create_dir_all(&state)?;
        let home = tempfile::Builder::new().prefix("home-").tempdir_in(state)?;
        let ours = KEPT.iter().filter_map(|name| Some((OsString::from(name), std::env::var_os(name)?)));
        let theirs = profile.prepare(home.path(), &server.url())?;
        let theirs = theirs.into_iter().map(|(name, value)| (name.into(), value.into()));
        Ok(Self { _server: server, environment: ours.chain(theirs).collect(), _home: home })
    }

    /// The whole environment of the agent.
    pub fn environment(&self) -> &[(OsString, OsString)] {
        &self.environment
    }
}
