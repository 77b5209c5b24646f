//! The user's file is changed here; its comments and its order stay.

use super::{Config, Error, Sources, file};
use crate::whole::write_whole;
use std::path::{Path, PathBuf};
use toml_edit::DocumentMut;

impl Sources {
    /// Changes the user's file, which is made if it is not there. Says which one it is.
    pub fn edit(&self, work: impl FnOnce(&mut DocumentMut, &Path) -> Result<(), Error>) -> Result<PathBuf, Error> {
        let why = "no place for a configuration: neither XDG_CONFIG_HOME nor HOME is set to an absolute path; set \
                   TIELINE_CONFIG to a file";
        let path = self.user.as_deref().ok_or_else(|| Error::new(why))?;
        let text = file::load(path)?.unwrap_or_default();
        // A file with a mistake in it is not written: first the mistake has to go.
        Config::parse(&text, path)?;
        // The words of the parser itself would show the line, and what is secret on it.
        let mut document: DocumentMut =
            text.parse().map_err(|error: toml_edit::TomlError| Error::at(path, None, error.message().to_owned()))?;
        work(&mut document, path)?;
        write_whole(path, document.to_string().as_bytes()).map_err(|error| Error::io(path, "writing it", &error))?;
        Ok(path.to_owned())
    }
}
