//! The web page: a few files that are part of the program. Nothing is fetched from elsewhere, and nothing else may run.

/// What a browser may do with the page: only our own files run, nothing is loaded from elsewhere, no other page shows it, and no text
/// becomes markup but through the cleaner.
pub(crate) const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self' data: blob:; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'; trusted-types dompurify";

/// One file of the page.
pub(crate) struct File {
    pub(crate) path: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) bytes: &'static [u8],
}

const SCRIPT: &str = "text/javascript; charset=utf-8";

macro_rules! files {
    ($($path:literal $kind:expr),* $(,)?) => {
        &[$(File { path: concat!("/", $path), kind: $kind, bytes: include_bytes!(concat!("../page/", $path)) }),*]
    };
}

static FILES: &[File] = files![
    "index.html" "text/html; charset=utf-8",
    "style.css" "text/css; charset=utf-8",
    "icon.svg" "image/svg+xml",
    "manifest.webmanifest" "application/manifest+json",
    "app.js" SCRIPT,
    "composer.js" SCRIPT,
    "diff.js" SCRIPT,
    "markdown.js" SCRIPT,
    "story.js" SCRIPT,
    "ui.js" SCRIPT,
    "view.js" SCRIPT,
    "wire.js" SCRIPT,
    "vendor/LICENSES" "text/plain; charset=utf-8",
    "vendor/highlight.js" SCRIPT,
    "vendor/hooks.js" SCRIPT,
    "vendor/htm.js" SCRIPT,
    "vendor/language-bash.js" SCRIPT,
    "vendor/language-c.js" SCRIPT,
    "vendor/language-cpp.js" SCRIPT,
    "vendor/language-css.js" SCRIPT,
    "vendor/language-diff.js" SCRIPT,
    "vendor/language-go.js" SCRIPT,
    "vendor/language-java.js" SCRIPT,
    "vendor/language-javascript.js" SCRIPT,
    "vendor/language-json.js" SCRIPT,
    "vendor/language-python.js" SCRIPT,
    "vendor/language-rust.js" SCRIPT,
    "vendor/language-sql.js" SCRIPT,
    "vendor/language-typescript.js" SCRIPT,
    "vendor/language-xml.js" SCRIPT,
    "vendor/language-yaml.js" SCRIPT,
    "vendor/marked.js" SCRIPT,
    "vendor/preact.js" SCRIPT,
    "vendor/purify.js" SCRIPT,
];

/// The file of a path.
pub(crate) fn file(path: &str) -> Option<&'static File> {
    let path = match path {
        "/" => "/index.html",
        // Browsers ask for it by themselves, for every page that names no other.
        "/favicon.ico" => "/icon.svg",
        path => path,
    };
    FILES.iter().find(|file| file.path == path)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use sha2::{Digest as _, Sha256};
    use std::collections::BTreeMap;
    use std::fmt::Write as _;

    #[test]
    fn the_libraries_of_others_are_those_that_were_looked_at() {
        let hashes = include_str!("../page/vendor/hashes.txt");
        let known: BTreeMap<&str, &str> = hashes
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| line.split_once("  ").unwrap())
            .map(|(hash, name)| (name, hash))
            .collect();
        let mut seen = 0;
        for file in FILES {
            let Some(name) = file.path.strip_prefix("/vendor/") else { continue };
            let hash = Sha256::digest(file.bytes).iter().fold(String::new(), |mut text, byte| {
                let _ = write!(text, "{byte:02x}");
                text
            });
            assert_eq!(known.get(name), Some(&&*hash), "{name} is not what scripts/page-vendor fetched");
            seen += 1;
        }
        assert_eq!(seen, known.len(), "every file is served, and no other");
    }

    #[test]
    fn everything_that_the_page_imports_is_there() {
        for file in FILES.iter().filter(|file| file.kind == SCRIPT && !file.path.contains("/vendor/language")) {
            let text = std::str::from_utf8(file.bytes).unwrap();
            let imports = text.match_indices("from\"./").chain(text.match_indices("from \"./"));
            for (at, mark) in imports {
                let rest = &text[at + mark.len()..];
                let name = rest.split('"').next().unwrap();
                let folder = file.path.rsplit_once('/').unwrap().0;
                assert!(super::file(&format!("{folder}/{name}")).is_some(), "{} imports {name}", file.path);
            }
        }
    }
}
