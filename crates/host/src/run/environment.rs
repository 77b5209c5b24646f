//! Which of our variables a command gets: a short list, and never a secret.

use std::ffi::{OsStr, OsString};

/// What programs need to find their way.
const ALLOWED: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TERM",
    "COLORTERM",
    "NO_COLOR",
    "TZ",
    "TMPDIR",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
];

/// Parts of names that tell a secret, as words between underscores.
const WORDS: &[&str] = &[
    "APIKEY",
    "AUTH",
    "BEARER",
    "COOKIE",
    "CREDENTIAL",
    "CREDENTIALS",
    "CREDS",
    "DSN",
    "JWT",
    "KEY",
    "KEYS",
    "PASS",
    "PASSPHRASE",
    "PASSWD",
    "PASSWORD",
    "PAT",
    "PRIVATE",
    "PWD",
    "SECRET",
    "SECRETS",
    "TOKEN",
    "TOKENS",
];

/// Names that tell a secret only as a whole.
const NAMES: &[&str] = &[
    "DATABASE_URL",
    "DBUS_SESSION_BUS_ADDRESS",
    "DOCKER_HOST",
    "GPG_AGENT_INFO",
    "KUBECONFIG",
    "REDIS_URL",
    "XAUTHORITY",
];

/// True if a variable of this name is likely to hold a secret, or to lead to one.
pub fn is_secret(name: &OsStr) -> bool {
    let name = name.to_string_lossy().to_ascii_uppercase();
    // The shell's own, which is just a folder.
    if matches!(&*name, "PWD" | "OLDPWD") {
        return false;
    }
    NAMES.contains(&&*name)
        || name.split(['_', '-', '.']).any(|word| WORDS.contains(&word))
        || ["APIKEY", "PASSWORD", "SECRET", "TOKEN"].iter().any(|end| name.ends_with(end))
}

/// The variables that a command gets: those of the short list, and those that `pass` names.
pub(super) fn allowed(ours: impl Iterator<Item = (OsString, OsString)>, pass: &[String]) -> Vec<(OsString, OsString)> {
    let patterns: Vec<&str> = ALLOWED.iter().copied().chain(pass.iter().map(String::as_str)).collect();
    let named = |name: &OsStr| {
        let name = name.to_string_lossy();
        patterns.iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == *pattern,
        })
    };
    ours.filter(|(name, _)| named(name) && !is_secret(name)).collect()
}

/// The variables of ours that any program gets which the user wants started: those of the short list.
pub fn base_environment() -> Vec<(OsString, OsString)> {
    allowed(std::env::vars_os(), &[])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_told_by_their_names() {
        let secret = "ANTHROPIC_API_KEY OPENAI_API_KEY GITHUB_TOKEN GH_TOKEN NPM_TOKEN AWS_SECRET_ACCESS_KEY \
            AWS_ACCESS_KEY_ID AWS_SESSION_TOKEN AZURE_CLIENT_SECRET GOOGLE_APPLICATION_CREDENTIALS SSH_AUTH_SOCK \
            GPG_AGENT_INFO PGPASSWORD MYSQL_PWD DATABASE_URL DB_PASS VAULT_TOKEN CARGO_REGISTRY_TOKEN SENTRY_DSN \
            STRIPE_SECRET KUBECONFIG DOCKER_AUTH_CONFIG HF_TOKEN TWILIO_AUTH_TOKEN apikey my_password GITLAB_PAT \
            SOMEAPIKEY ACCESSTOKEN LC_SECRET X_COOKIE JWT_SIGNING SSH_PRIVATE_KEY";
        for name in secret.split_ascii_whitespace() {
            assert!(is_secret(OsStr::new(name)), "{name}");
        }
        for name in ["PATH", "HOME", "LC_ALL", "PWD", "EDITOR", "MONKEY", "COMPASS", "RUST_LOG", "KEYBOARD", "AUTHOR"] {
            assert!(!is_secret(OsStr::new(name)), "{name}");
        }
    }

    #[test]
    fn only_what_is_on_a_list_passes() {
        let ours = ["PATH", "LC_TIME", "LC_TOKEN", "FOO_A", "FOO_KEY", "BAR", "BARN", "GITHUB_TOKEN", "HOME"];
        let ours = ours.map(|name| (OsString::from(name), OsString::from("x"))).into_iter();
        let found = allowed(ours, &["FOO_*".into(), "BAR".into(), "GITHUB_TOKEN".into()]);
        let names: Vec<_> = found.iter().filter_map(|(name, _)| name.to_str()).collect();
        assert_eq!(names, ["PATH", "LC_TIME", "FOO_A", "BAR", "HOME"]);
    }
}
