//! The configuration from real files: layers, origins, mistakes with their lines, trust.
#![allow(clippy::unwrap_used)]

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use tieline_client::config::{Config, Flags, Sources, Value, schema};

struct World {
    folder: tempfile::TempDir,
    variables: Vec<(&'static str, &'static str)>,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["home", "repo/.git", "repo/deep/er"] {
            std::fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        Self { folder, variables: Vec::new() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> &Self {
        std::fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        std::fs::write(self.path(name), text).unwrap();
        self
    }

    fn user(&self, text: &str) -> &Self {
        self.write("home/.config/tieline/config.toml", text)
    }

    fn project(&self, text: &str) -> &Self {
        self.write("repo/.tieline/config.toml", text)
    }

    fn sources(&self, cwd: &str) -> Sources {
        let home = self.path("home");
        Sources::with(&self.path(cwd), |name| {
            let set = self.variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value));
            set.or_else(|| (name == "HOME").then(|| home.clone().into()))
        })
    }

    fn load(&self) -> Result<Config, String> {
        let sources = self.sources("repo/deep/er");
        Config::load(&sources, &Flags::default()).map_err(|error| error.to_string())
    }
}

#[test]
fn later_layers_win_and_say_where_they_come_from() {
    let mut world = World::new();
    world.user("agent = \"a\"\nformat = \"json\"\n[permissions]\ndeny = [\"run rm *\"]\n");
    world.project("# ours\nagent = \"b\"\n[permissions]\ndeny = [\"read **/.env\"]\n");
    world.write("repo/.tieline/config.local.toml", "agent = \"c\"\n");
    let config = world.load().unwrap();
    assert_eq!((config.agent.as_deref(), config.format.as_deref()), (Some("c"), Some("json")));
    // What holds back adds up: nobody can take it away.
    assert_eq!(config.permissions.rules.deny.len(), 2);
    let origin = |config: &Config, key: &str| {
        let found = config.shown().iter().rfind(|one| one.key == *key).unwrap();
        found.origin.to_string()
    };
    assert!(origin(&config, "agent").ends_with("repo/.tieline/config.local.toml:1"), "{}", origin(&config, "agent"));
    assert!(origin(&config, "format").ends_with("config.toml:2"));
    world.variables.push(("TIELINE_AGENT", "d"));
    let config = world.load().unwrap();
    assert_eq!((config.agent.as_deref(), origin(&config, "agent").as_str()), (Some("d"), "$TIELINE_AGENT"));
    let flags = Flags { agent: Some("e".into()), ..Flags::default() };
    let config = Config::load(&world.sources("repo"), &flags).unwrap();
    assert_eq!((config.agent.as_deref(), origin(&config, "agent").as_str()), (Some("e"), "flag"));
}

#[test]
fn mistakes_have_a_line_and_a_hint() {
    for (text, want) in [
        ("agnet = \"x\"", "config.toml:1: unknown key `agnet`; did you mean `agent`?"),
        (
            "\n\n[agents.mine]\ncomand = [\"x\"]",
            "config.toml:4: unknown key `agents.mine.comand`; did you mean `command`?",
        ),
        ("[agents.mine]\nzzz = 1", "known here: command, env, url, headers, cwd, protocol, framing"),
        (
            "[agents.mine]\ncommand = \"x --acp\"",
            "config.toml:2: `agents.mine.command` is a list of words, not one text: write [\"x\", \"argument\", …]",
        ),
        ("[agents.mine]\nenv = {}", "the agent `mine` has no command"),
        ("[agents.\"my agent\"]\ncommand = [\"x\"]", "an agent can't be called \"my agent\""),
        (
            "format = \"jsn\"",
            "`format` can't be \"jsn\": use text, json, stream-json, acp, quiet; did you mean `json`?",
        ),
        ("agent = \"sh -c evil\"", "`agent` must be the name of an agent"),
        ("[permissions]\nallow = [\"rum x\"]", "config.toml:2: `permissions.allow` has a bad rule \"rum x\""),
        ("[permissions]\ndefault = \"yolo\"", "use ask, allow-reads, plan, allow-edits, auto, allow-all, deny-all"),
        ("[mcp.docs]\nurl = \"https://x\"\ncommand = [\"y\"]", "needs a command or a url, and not both"),
        ("[mcp.docs]\nenv = {}", "needs a command or a url, and not both"),
        ("[mcp.docs]\ntools = [\"x\"]\nheaders = { A = \"b\" }", "needs a command or a url, and not both"),
        ("[mcp.docs]\nurl = \"https://x\"\ntools = \"x\"", "`mcp.docs.tools` must be a list of names"),
        (
            "[agents.x]\ncommand = [\"y\"]\nenv = { K = { keyring = \"z\" } }",
            "has a bad value for K: use a text, { env",
        ),
        ("[sessions]\nkeep_days = -1", "must be a number that is not negative"),
        ("[models]\ndefault = 1", "config.toml:2: `models.default` must be a text in quotes"),
        ("[models]\nmodel = \"x\"", "config.toml:2: unknown key `models.model`; known here: default, choices"),
        ("[models]\nthought_level = \"hgh\"", "config.toml:2: `models.thought_level` can't be \"hgh\""),
        ("[providers.x]\nbase_url = \"h\"", "config.toml:2: `providers.x.base_url` must look like https://host/path"),
        ("[providers.x]\nheaders = { \"a b\" = \"c\" }", "config.toml:2: `providers.x.headers` has a name that no"),
        ("[providers.x]\nheaders = { a = \"b\\n\" }", "config.toml:2: `providers.x.headers` has a bad value for a"),
        ("[providers.x]\ninsecure = \"yes\"", "config.toml:2: `providers.x.insecure` must be true or false"),
        ("[providers]\nx = \"y\"", "config.toml:2: `providers.x` is a table"),
        ("[network]\ntries = -1", "config.toml:2: `network.tries` must be a number"),
        ("[mcp.docs]\nurl = \"docs\"", "config.toml:2: `mcp.docs.url` must look like https://host/path"),
        ("agents = 3", "`agents` is a table; write [agents]"),
        ("agent = ", "config.toml:1:"),
        ("agent = \"x\"\nagent = \"y\"", "config.toml:2:"),
    ] {
        let world = World::new();
        world.user(text);
        let error = world.load().unwrap_err();
        assert!(error.contains(want), "{text:?}: {error}");
    }
}

#[test]
fn models_and_providers_are_read_like_anything_else() {
    let mut world = World::new();
    world.user(
        "[models]\ndefault = \"mine/x\"\nchoices = [\"openai/y\"]\nthought_level = \"low\"\n\
         [providers.mine]\nformat = \"openai-chat\"\nbase_url = \"https://me:s3cret@models.example/v1?k=s3cret\"\n\
         headers = { x-team = \"s3cret\" }\nkey_env = \"K\"\nkey_file = \"/k\"\ncontext = 9\nmodels = [\"x\"]\ninsecure = true\n\
         [network]\nca_file = \"/etc/ca.pem\"\nidle_seconds = 5\ntries = 0\n",
    );
    let config = world.load().unwrap();
    let mine = &config.providers["mine"];
    assert_eq!((mine.format.as_deref(), mine.context, mine.insecure), (Some("openai-chat"), Some(9), true));
    assert_eq!((config.models.default.as_deref(), config.network.tries()), (Some("mine/x"), 0));
    let shown: Vec<String> = config.shown().iter().map(ToString::to_string).collect();
    for expect in [
        "models.default = \"mine/x\"",
        "models.choices = [\"openai/y\"]",
        "providers.mine.base_url = \"https://…@models.example/v1?…\"",
        "providers.mine.headers = { x-team = \"…\" }",
        "providers.mine.insecure = true",
        "network.tries = 0",
    ] {
        assert!(shown.iter().any(|line| line == expect), "{expect}: {shown:#?}");
    }
    assert!(!format!("{:?} {shown:?}", config.providers).contains("s3cret"), "{shown:#?}");
    assert!(config.origin("providers.mine.format").unwrap().to_string().ends_with("config.toml:6"));
    world.variables.push(("TIELINE_MODEL", "offline"));
    let config = world.load().unwrap();
    assert_eq!(config.models.default.as_deref(), Some("offline"));
    assert_eq!(config.origin("models.default").unwrap().to_string(), "$TIELINE_MODEL");
}

#[tokio::test]
async fn how_a_server_of_somebody_else_is_used_is_not_passed_on() {
    let world = World::new();
    world.user("[mcp.theirs]\nwithout = [\"delete_*\"]\ntimeout = 60\n[mcp.mine]\nurl = \"https://x\"\n");
    let config = world.load().unwrap();
    let names = |server: &tieline::McpServer| match server {
        tieline::McpServer::Http(server) => server.name.clone(),
        other => panic!("{other:?}"),
    };
    let servers = config.mcp_servers().await.unwrap();
    assert_eq!(servers.iter().map(names).collect::<Vec<_>>(), ["mine"]);
    assert_eq!(config.mcp["theirs"].timeout, Some(std::time::Duration::from_mins(1)));
}

#[test]
fn a_project_adds_nothing_until_it_is_trusted() {
    let world = World::new();
    let text = "agent = \"mine\"\n[agents.mine]\ncommand = [\"./bin/agent\"]\n[mcp.x]\nurl = \"https://x\"\n\
                [permissions]\nallow = [\"run *\"]\ndefault = \"allow-all\"\ndeny = [\"read secret\"]\nask = [\"run git *\"]\n";
    world.project(text);
    let check = |trusted: bool| {
        let config = world.load().unwrap();
        assert_eq!(config.agents.contains_key("mine"), trusted);
        assert_eq!(config.mcp.contains_key("x"), trusted);
        assert_eq!(config.permissions.rules.allow.len(), usize::from(trusted));
        assert_eq!(config.permissions.default.is_some(), trusted);
        assert_eq!((config.permissions.rules.deny.len(), config.permissions.rules.ask.len()), (1, 1));
        assert_eq!(config.held_back.is_empty(), trusted);
        config
    };
    let held = check(false).held_back;
    assert_eq!(held.len(), 4);
    assert!(
        held[0].to_string().ends_with("the file is not trusted; read it, then type: tieline config trust"),
        "{}",
        held[0]
    );
    let sources = world.sources("repo/deep/er");
    assert_eq!(sources.trust().unwrap(), [world.path("repo/.tieline/config.toml")]);
    let config = check(true);
    assert_eq!(config.agents["mine"].command, [world.path("repo/./bin/agent").to_string_lossy()]);
    // One byte more, and it is a stranger again.
    world.project(&format!("{text}\n"));
    let held = check(false).held_back;
    assert!(held[0].to_string().contains("changed since it was trusted"), "{}", held[0]);
    sources.trust().unwrap();
    check(true);
    assert_eq!(sources.distrust().unwrap().len(), 1);
    check(false);
}

#[test]
fn the_project_is_looked_for_up_to_the_repository() {
    let world = World::new();
    world.write(".tieline/config.toml", "agent = \"outside\"");
    assert_eq!(world.sources("repo/deep/er").project, None);
    world.project("agent = \"inside\"");
    assert_eq!(world.sources("repo/deep/er").project, Some(world.path("repo")));
    // Without a repository only the folder itself counts, and the home folder never does.
    assert_eq!(world.sources("home").project, None);
    world.write("home/.tieline/config.toml", "agent = \"home\"");
    assert_eq!(world.sources("home").project, None);
}

#[test]
fn no_home_and_no_right_to_write() {
    let sources = Sources::with(Path::new("/"), |_| None);
    let config = Config::load(&sources, &Flags::default()).unwrap();
    assert!(config.agents.is_empty());
    let error = sources.trust().unwrap_err().to_string();
    assert!(error.contains("HOME"), "{error}");
    let agent = tieline_client::agents::NewAgent { name: "x".into(), command: vec!["y".into()], ..Default::default() };
    let error = tieline_client::agents::add(&sources, std::slice::from_ref(&agent)).unwrap_err().to_string();
    assert!(error.contains("TIELINE_CONFIG"), "{error}");
    // A file where a folder should be stops even root.
    let world = World::new();
    world.write("home/.config", "");
    let error = tieline_client::agents::add(&world.sources("repo"), &[agent]).unwrap_err().to_string();
    assert!(error.contains("it failed: Not a directory"), "{error}");
    world.load().unwrap();
}

#[tokio::test]
async fn secrets_are_found_when_needed_and_never_shown() {
    let world = World::new();
    world.user(
        "[agents.a]\ncommand = [\"x\"]\nenv = { P = \"s3cret\", E = { env = \"PATH\" }, C = { command = [\"echo\", \"s3cret\"] } }\n\
         [mcp.m]\nurl = \"https://x\"\nheaders = { Authorization = \"s3cret\" }\ntransport = \"sse\"\n",
    );
    let config = world.load().unwrap();
    let shown = format!("{:?} {:?} {:?}", config.agents, config.mcp, config.shown());
    assert!(!shown.contains("\"s3cret\" }") && shown.matches("s3cret").count() == 2, "{shown}");
    let env = &config.agents["a"].env;
    assert_eq!(env["P"].resolve().await.unwrap(), "s3cret");
    assert_eq!(env["E"].resolve().await.unwrap(), std::env::var("PATH").unwrap());
    assert_eq!(env["C"].resolve().await.unwrap(), "s3cret");
    assert_eq!(config.mcp_servers().await.unwrap()[0].kind(), "sse");
    let missing = Value::Env("TIELINE_NOT_SET".into()).resolve().await.unwrap_err();
    assert_eq!(missing.to_string(), "the variable TIELINE_NOT_SET is not set; type: export TIELINE_NOT_SET=…");
    for words in [vec!["false".to_owned()], vec!["tieline-no-such-program".to_owned()]] {
        Value::Command(words).resolve().await.unwrap_err();
    }
}

#[test]
fn the_schema_names_every_key() {
    let schema = schema();
    let agents = &schema["properties"]["agents"]["additionalProperties"]["properties"];
    assert_eq!(agents["command"]["type"], "array");
    assert_eq!(schema["properties"]["format"]["enum"][0], "text");
    assert_eq!(schema["properties"]["sessions"]["properties"]["keep_count"]["type"], "integer");
    assert_eq!(schema["additionalProperties"], false);
}

#[test]
fn how_long_sessions_are_kept() {
    let mut world = World::new();
    let days = |config: &Config| config.retention.max_age.map(|age| age.as_secs() / 86_400);
    let usual = world.load().unwrap().retention;
    assert_eq!((usual.max_age.map(|age| age.as_secs() / 86_400), usual.max_count), (Some(365), Some(5000)));
    world.user("[sessions]\nkeep_days = 0\nkeep_count = 7\n");
    let config = world.load().unwrap();
    assert_eq!((days(&config), config.retention.max_count), (None, Some(7)));
    world.variables.push(("TIELINE_KEEP_DAYS", "3"));
    assert_eq!(days(&world.load().unwrap()), Some(3));
    world.variables[0].1 = "soon";
    assert!(world.load().unwrap_err().contains("$TIELINE_KEEP_DAYS: `sessions.keep_days` can't be \"soon\""));
}
