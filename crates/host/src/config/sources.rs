//! Where configuration is looked for: the user's folder, the project's, and what is kept about them.

use super::trust::Trusted;
use super::{Error, file};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The folder of a project that holds its configuration.
const FOLDER: &str = ".tieline";

/// The places to look.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// The working directory; empty if there is none.
    pub cwd: PathBuf,
    /// The home folder, which is no project.
    pub home: Option<PathBuf>,
    /// The folder of the user's own files.
    pub folder: Option<PathBuf>,
    /// The user's file. `None` if there is no place for one: neither `XDG_CONFIG_HOME` nor `HOME` is set.
    pub user: Option<PathBuf>,
    /// The user's file was named with `TIELINE_CONFIG`, so it has to be there.
    pub named: bool,
    /// The project's folder, if it has files of ours: the one that holds `.tieline`.
    pub project: Option<PathBuf>,
    /// Where it is remembered what is trusted.
    pub trusted: Option<PathBuf>,
    /// The variables that count.
    pub variables: Vec<(&'static str, String)>,
}

/// The variables that stand for keys.
pub(super) const VARIABLES: &[(&str, &str)] = &[
    ("TIELINE_AGENT", "agent"),
    ("TIELINE_FORMAT", "format"),
    ("TIELINE_PERMISSIONS", "permissions.default"),
    ("TIELINE_MODEL", "models.default"),
    ("TIELINE_KEEP_DAYS", "sessions.keep_days"),
];

impl Sources {
    /// The places for a working directory, by the environment of this process.
    pub fn of(cwd: &Path) -> Self {
        Self::with(cwd, |name| {
            let value = std::env::var_os(name)?;
            // A path that somebody typed starts where they are, not where the session works.
            if name == "TIELINE_CONFIG" && !value.is_empty() {
                return std::path::absolute(value).ok().map(PathBuf::into_os_string);
            }
            Some(value)
        })
    }

    /// The same with another environment.
    pub fn with(cwd: &Path, env: impl Fn(&str) -> Option<OsString>) -> Self {
        // A relative path counts as not set; so the base directory specification says.
        let absolute = |name: &str| env(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let below_home =
            |name: &str, rest: &str| absolute(name).or_else(|| absolute("HOME").map(|home| home.join(rest)));
        let folder = below_home("XDG_CONFIG_HOME", ".config").map(|folder| folder.join("tieline"));
        let config = folder.as_ref().map(|folder| folder.join("config.toml"));
        let state = below_home("XDG_STATE_HOME", ".local/state").map(|folder| folder.join("tieline/trusted.json"));
        let given = env("TIELINE_CONFIG").filter(|path| !path.is_empty()).map(|path| cwd.join(path));
        let text = |name| env(name).and_then(|value| value.into_string().ok()).filter(|value| !value.is_empty());
        Self {
            cwd: cwd.to_owned(),
            home: absolute("HOME"),
            folder,
            named: given.is_some(),
            user: given.or(config),
            project: project(cwd, absolute("HOME").as_deref()),
            trusted: state,
            variables: VARIABLES.iter().filter_map(|(name, _)| Some((*name, text(name)?))).collect(),
        }
    }

    /// The same, with the project looked for again.
    pub(super) fn again(&self) -> Self {
        let mut again = self.clone();
        if again.project.is_none() && !self.cwd.as_os_str().is_empty() {
            again.project = project(&self.cwd, self.home.as_deref());
        }
        again
    }

    /// The files of the project, the later one on top. They need not be there.
    pub fn project_files(&self) -> Vec<PathBuf> {
        let folder = self.project.iter().map(|project| project.join(FOLDER));
        folder.flat_map(|folder| [folder.join("config.toml"), folder.join("config.local.toml")]).collect()
    }

    /// Trusts what the project's files say now. Says which ones.
    pub fn trust(&self) -> Result<Vec<PathBuf>, Error> {
        let place = self.trusted_place()?;
        let mut trusted = Trusted::load(Some(place));
        let mut done = Vec::new();
        for path in self.project_files() {
            if let Some(text) = file::load(&path)? {
                // What can't be read is not trusted blindly.
                file::parse(&text, &path)?;
                trusted.add(&path, &text);
                done.push(path);
            }
        }
        if done.is_empty() {
            return Err(Error::new(
                "there is nothing to trust: no .tieline/config.toml here or above, up to the repository root",
            ));
        }
        trusted.save(place)?;
        Ok(done)
    }

    /// Trusts the project's files no more. Says which ones were.
    pub fn distrust(&self) -> Result<Vec<PathBuf>, Error> {
        let place = self.trusted_place()?;
        let mut trusted = Trusted::load(Some(place));
        let done: Vec<PathBuf> = self.project_files().into_iter().filter(|path| trusted.remove(path)).collect();
        if !done.is_empty() {
            trusted.save(place)?;
        }
        Ok(done)
    }

    fn trusted_place(&self) -> Result<&Path, Error> {
        let why = "no place to remember what is trusted: neither XDG_STATE_HOME nor HOME is set to an absolute path";
        self.trusted.as_deref().ok_or_else(|| Error::new(why))
    }
}

/// The nearest folder with configuration, from `cwd` up to the root of its repository; without a repository only `cwd`.
fn project(cwd: &Path, home: Option<&Path>) -> Option<PathBuf> {
    let has_files = |folder: &Path| {
        let ours = folder.join(FOLDER);
        ours.join("config.toml").exists() || ours.join("config.local.toml").exists()
    };
    let root = cwd.ancestors().find(|folder| folder.join(".git").exists()).unwrap_or(cwd);
    let mut folders = cwd.ancestors().take_while(|folder| folder.starts_with(root));
    folders.find(|folder| Some(*folder) != home && has_files(folder)).map(Path::to_owned)
}
