//! A command of `terminal/create`: words for the system, or a line for a shell.

use std::ffi::OsStr;
use std::path::Path;
use tieline::schema::{CreateTerminalRequest, EnvVariable};
use tieline::{Error, Result};
use tieline_host::rules::CommandLine;
use tieline_host::run::is_secret;

/// So many variables can be set for one command.
const MAX_VARIABLES: usize = 1000;

/// What is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Line {
    /// A program and its arguments.
    Words(Vec<String>),
    /// A line for the shell.
    Shell(String),
}

impl Line {
    /// Some agents send a whole shell line as the command and no arguments. That is a line, unless it names a program.
    pub(crate) fn of(request: &CreateTerminalRequest) -> Self {
        let command = &request.command;
        let plain = |c: char| c.is_ascii_alphanumeric() || "@%+=:,./_-".contains(c);
        if !request.args.is_empty() || command.chars().all(plain) || is_file(command) {
            return Self::Words(std::iter::once(command).chain(&request.args).cloned().collect());
        }
        Self::Shell(command.clone())
    }

    /// For the rules, with the variables that are set for it: they can make another command of one. What may be a secret is left out
    /// if it is to be stored.
    pub(crate) fn parsed(&self, env: &[EnvVariable], stored: bool) -> CommandLine {
        let line = match self {
            Self::Words(words) => crate::permission::of_words(words.clone()),
            Self::Shell(line) => CommandLine::parse(line),
        };
        if env.is_empty() {
            return line;
        }
        let set = env.iter().map(|EnvVariable { name, value, .. }| {
            if stored && is_secret(OsStr::new(name)) {
                return format!("{name}=[not stored]");
            }
            format!("{name}='{}'", value.replace('\'', "'\\''"))
        });
        line.with_variables(&set.collect::<Vec<_>>().join(" "))
    }
}

/// Whether these variables can be set, and be shown as what they are.
pub(crate) fn check(env: &[EnvVariable]) -> Result<()> {
    if env.len() > MAX_VARIABLES {
        return Err(Error::invalid_params(format!("more than {MAX_VARIABLES} variables")));
    }
    let named = |name: &str| {
        !name.starts_with(|c: char| c.is_ascii_digit())
            && !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    match env.iter().position(|one| !named(&one.name) || one.value.contains('\0')) {
        Some(at) => {
            Err(Error::invalid_params(format!("`env[{at}]` is no variable: [A-Za-z_][A-Za-z0-9_]* and a text")))
        }
        None => Ok(()),
    }
}

fn is_file(command: &str) -> bool {
    let path = Path::new(command);
    path.is_absolute() && path.is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_words() {
        for (command, args, shell) in [
            ("ls", &[][..], false),
            ("/bin/ls", &[], false),
            ("ls", &["-l; rm x"], false),
            ("my program", &["x"], false),
            ("ls -l", &[], true),
            ("a|b", &[], true),
            ("$HOME/x", &[], true),
        ] {
            let args = args.iter().map(ToString::to_string).collect();
            let request = CreateTerminalRequest { command: command.into(), args, ..Default::default() };
            assert_eq!(matches!(Line::of(&request), Line::Shell(_)), shell, "{command}");
        }
    }
}
