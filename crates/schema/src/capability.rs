//! What each side can do, as flat flags; a table says where each flag sits in the nested objects of each dialect.

use crate::{Decode, Dialect, Dialects, Encode, Meta, Writer};
use std::collections::BTreeMap;
use tieline_json::{Error, Kind, Reader, write_str};

/// One flag: where it sits and how it is written.
struct Row<T> {
    /// Its place in the shape of version 2, such as `session.prompt.image`.
    path: &'static str,
    /// Where it is written.
    dialects: Dialects,
    /// True if version 1 writes `true` or `false`, false if an object says yes everywhere.
    plain: bool,
    get: fn(&T) -> bool,
    set: fn(&mut T) -> &mut bool,
}

/// Flags with their table. `plain` in front of the place marks a boolean of version 1.
macro_rules! capabilities {
    ($(#[$doc:meta])* $name:ident renamed by $rename:expr; $restore:expr => {
        $( $(#[$fdoc:meta])* $field:ident = $($plain:ident)? $path:literal @ $dialects:expr; )*
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Default)]
        #[allow(clippy::struct_excessive_bools, reason = "each flag is one independent yes or no")]
        pub struct $name {
            $( $(#[$fdoc])* pub $field: bool, )*
            /// Extensions of the whole object (`_meta`).
            pub meta: Option<Meta>,
            /// Extensions of the objects inside, by their place in the shape of version 2 (such as `session.prompt`).
            pub nested: BTreeMap<Box<str>, Meta>,
        }

        impl $name {
            const ROWS: &'static [Row<Self>] = &[
                $( Row {
                    path: $path,
                    dialects: $dialects,
                    plain: capabilities!(@plain $($plain)?),
                    get: |flags| flags.$field,
                    set: |flags| &mut flags.$field,
                }, )*
            ];

            /// Adds everything that `other` has.
            pub fn merge(&mut self, other: Self) {
                for row in Self::ROWS {
                    *(row.set)(self) |= (row.get)(&other);
                }
                self.meta = self.meta.take().or(other.meta);
                for (path, meta) in other.nested {
                    self.nested.entry(path).or_insert(meta);
                }
            }
        }

        impl Decode for $name {
            fn decode(json: &mut Reader<'_>) -> Result<Self, Error> {
                let mut flags = Self::default();
                let mut found = Found { known: &|path| Self::ROWS.iter().any(|row| inside(row.path, path)), yes: Vec::new(), metas: Vec::new() };
                found.object(json, "", $rename)?;
                for row in Self::ROWS {
                    *(row.set)(&mut flags) = found.yes.iter().any(|path| path == row.path);
                }
                for (path, meta) in found.metas {
                    if path.is_empty() {
                        flags.meta = Some(meta);
                    } else {
                        flags.nested.insert(path.into(), meta);
                    }
                }
                Ok(flags)
            }
        }

        impl Encode for $name {
            fn encode(&self, out: &mut Writer<'_>) {
                let mut leaves = Vec::new();
                for row in Self::ROWS.iter().filter(|row| out.speaks(row.dialects)) {
                    let yes = (row.get)(self);
                    let leaf = match (row.plain && out.dialect == Dialect::V1, yes) {
                        (true, yes) => Leaf::Plain(yes),
                        (false, true) => Leaf::Object,
                        (false, false) => continue,
                    };
                    leaves.push(($restore(row.path, out.dialect), leaf));
                }
                for (path, meta) in &self.nested {
                    let mut rows = Self::ROWS.iter().filter(|row| out.speaks(row.dialects) && inside(row.path, path));
                    // In current v2 `auth` of an agent holds nothing but extensions.
                    let bare = out.dialect == Dialect::V2 && &**path == "auth";
                    if !bare && !rows.any(|row| row.path != &**path || (row.get)(self)) {
                        continue;
                    }
                    leaves.push(($restore(path, out.dialect) + "._meta", Leaf::Meta(meta)));
                }
                if let Some(meta) = &self.meta {
                    leaves.push(("_meta".to_owned(), Leaf::Meta(meta)));
                }
                self.drop_unsaid(&mut leaves, out.dialect);
                leaves.sort_unstable_by(|a, b| a.0.split('.').cmp(b.0.split('.')));
                write_object(out, &leaves, 0);
            }
        }
    };
    (@plain plain) => { true };
    (@plain) => { false };
}

capabilities! {
    /// What a client can do.
    ClientCapabilities renamed by |key| key; |path: &str, _| path.to_owned() => {
        /// It reads files for the agent (`fs/read_text_file`). Not in current version 2.
        fs_read = plain "fs.readTextFile" @ Dialects::V1;
        /// It writes files for the agent (`fs/write_text_file`). Not in current version 2.
        fs_write = plain "fs.writeTextFile" @ Dialects::V1;
        /// It runs commands for the agent (`terminal/*`). Not in current version 2.
        terminal = plain "terminal" @ Dialects::V1;
        /// It can run the agent's own login in a terminal. Not in seed-era version 2.
        terminal_auth = plain "auth.terminal" @ Dialects::NOT_SEED;
        /// It shows forms. Not in seed-era version 2.
        elicit_form = "elicitation.form" @ Dialects::NOT_SEED;
        /// It opens web pages for the agent. Not in seed-era version 2.
        elicit_url = "elicitation.url" @ Dialects::NOT_SEED;
        /// It shows boolean options (taken for granted in current version 2).
        boolean_options = "session.configOptions.boolean" @ Dialects::V1;
        /// It shows notices (taken for granted in current version 2).
        notices = "session.notices" @ Dialects::V1;
        /// It shows compactions (taken for granted in current version 2).
        compaction = "session.compaction" @ Dialects::V1;
    }
}

capabilities! {
    /// What an agent can do.
    AgentCapabilities renamed by from_v1; to_dialect => {
        /// It has sessions at all. Only version 2 can say no.
        session = "session" @ Dialects::BOTH_V2;
        /// It replays a session (`session/load`, or `session/resume` with `replayFrom`).
        load = plain "session.load" @ Dialects::OLD;
        /// It lists sessions.
        list = "session.list" @ Dialects::OLD;
        /// It takes up a session without replay.
        resume = "session.resume" @ Dialects::OLD;
        /// It closes sessions.
        close = "session.close" @ Dialects::OLD;
        /// It deletes sessions.
        delete = "session.delete" @ Dialects::ALL;
        /// Others may join a session that is live (`session/attach`, a proposal).
        attach = "session.attach" @ Dialects::ALL;
        /// A session may have more than one root directory.
        additional_directories = "session.additionalDirectories" @ Dialects::ALL;
        /// Prompts may hold pictures.
        image = plain "session.prompt.image" @ Dialects::ALL;
        /// Prompts may hold sound.
        audio = plain "session.prompt.audio" @ Dialects::ALL;
        /// Prompts may hold whole resources.
        embedded_context = plain "session.prompt.embeddedContext" @ Dialects::ALL;
        /// It starts MCP servers as processes. Version 1 takes this for granted.
        mcp_stdio = "session.mcp.stdio" @ Dialects::BOTH_V2;
        /// It reaches MCP servers over HTTP.
        mcp_http = plain "session.mcp.http" @ Dialects::ALL;
        /// It reaches MCP servers over server-sent events. Only version 1 has them.
        mcp_sse = plain "session.mcp.sse" @ Dialects::V1;
        /// It can log out. Current version 2 promises this with any auth method.
        logout = "auth.logout" @ Dialects::OLD;
    }
}

/// As what others may join a session.
const ATTACH_ROLES: &str = "[\"controller\",\"observer\"]";

/// The first keys of the version 1 agent object and where they belong in version 2.
const V1_KEYS: &[(&str, &str)] = &[
    ("session.load", "loadSession"),
    ("session.prompt", "promptCapabilities"),
    ("session.mcp", "mcpCapabilities"),
    ("session", "sessionCapabilities"),
];

fn from_v1(key: &str) -> &str {
    V1_KEYS.iter().find(|(_, old)| *old == key).map_or(key, |(path, _)| path)
}

fn to_dialect(path: &str, dialect: Dialect) -> String {
    let renamed = V1_KEYS.iter().filter(|_| dialect == Dialect::V1).find(|(new, _)| inside(path, new));
    match renamed {
        Some((new, old)) => format!("{old}{}", &path[new.len()..]),
        None => path.to_owned(),
    }
}

impl ClientCapabilities {
    /// It serves files or terminals, which current version 2 has no words for.
    pub fn has_tools(&self) -> bool {
        self.fs_read || self.fs_write || self.terminal
    }

    /// Takes files and terminals off, and gives those that were offered.
    #[must_use]
    pub fn take_tools(&mut self) -> Self {
        let Self { fs_read, fs_write, terminal, .. } = *self;
        (self.fs_read, self.fs_write, self.terminal) = (false, false, false);
        Self { fs_read, fs_write, terminal, ..Self::default() }
    }

    #[allow(clippy::unused_self, reason = "the other side needs it")]
    fn drop_unsaid(&self, _: &mut [(String, Leaf<'_>)], _: Dialect) {}
}

impl AgentCapabilities {
    /// What every agent of version 1 can do, with nothing optional.
    pub fn v1_baseline() -> Self {
        Self { session: true, mcp_stdio: true, ..Self::default() }
    }

    /// What `session` promises in current version 2.
    pub fn promise_current(&mut self, has_auth_methods: bool) {
        if self.session {
            self.load = true;
            self.list = true;
            self.resume = true;
            self.close = true;
        }
        self.logout |= has_auth_methods;
    }

    /// In version 2 the `session` object says yes by being there, so without sessions nothing inside may be written.
    fn drop_unsaid(&self, leaves: &mut Vec<(String, Leaf<'_>)>, dialect: Dialect) {
        if self.attach {
            leaves.push((to_dialect("session.attach.roles", dialect), Leaf::Json(ATTACH_ROLES)));
        }
        if !self.session && dialect != Dialect::V1 {
            leaves.retain(|(path, _)| !inside(path, "session"));
        }
    }
}

/// True if `path` is `group` or lies in it.
fn inside(path: &str, group: &str) -> bool {
    path.strip_prefix(group).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// What a walk over a capability object found.
struct Found<'t> {
    /// True for places that lead to a flag.
    known: &'t dyn Fn(&str) -> bool,
    /// The places that say yes: `true` or any object.
    yes: Vec<String>,
    metas: Vec<(String, Meta)>,
}

impl Found<'_> {
    fn object(&mut self, json: &mut Reader<'_>, at: &str, rename: fn(&str) -> &str) -> Result<(), Error> {
        let mut object = json.object()?;
        while let Some(key) = object.key(json)? {
            if key == "_meta" {
                let meta: Option<Meta> = crate::codec::read::lenient(json, "_meta")?;
                self.metas.extend(meta.map(|meta| (at.to_owned(), meta)));
                continue;
            }
            let path = if at.is_empty() { rename(&key).to_owned() } else { format!("{at}.{key}") };
            if !(self.known)(&path) {
                json.skip()?;
                continue;
            }
            // The last of several equal keys counts.
            self.yes.retain(|yes| *yes != path);
            match json.peek()? {
                Kind::Object => {
                    let mark = json.mark();
                    self.object(json, &path, |key| key)?;
                    json.locate(mark, &key);
                    self.yes.push(path);
                }
                Kind::Bool => {
                    if json.bool()? {
                        self.yes.push(path);
                    }
                }
                Kind::Null => json.skip()?,
                _ => {
                    json.skip()?;
                    json.forgive(Error::data("expected an object, true or false").inside(key));
                }
            }
        }
        Ok(())
    }
}

/// What stands at the end of a path.
enum Leaf<'m> {
    Plain(bool),
    Object,
    Meta(&'m Meta),
    Json(&'static str),
}

/// Writes sorted leaves as nested objects; the first `depth` steps of their paths are written already.
fn write_object(out: &mut Writer<'_>, leaves: &[(String, Leaf<'_>)], depth: usize) {
    out.open();
    for group in leaves.chunk_by(|a, b| step(&a.0, depth) == step(&b.0, depth)) {
        let Some((path, leaf)) = group.first() else { continue };
        // What has no step here is the object itself.
        let Some(key) = step(path, depth) else { continue };
        write_str(out.out, key);
        out.out.push(b':');
        match leaf {
            Leaf::Plain(yes) if step(path, depth + 1).is_none() => yes.encode(out),
            Leaf::Meta(meta) if step(path, depth + 1).is_none() => meta.encode(out),
            Leaf::Json(text) if step(path, depth + 1).is_none() => out.out.extend_from_slice(text.as_bytes()),
            _ => write_object(out, group, depth + 1),
        }
        out.out.push(b',');
    }
    out.close();
}

fn step(path: &str, depth: usize) -> Option<&str> {
    path.split('.').nth(depth)
}
