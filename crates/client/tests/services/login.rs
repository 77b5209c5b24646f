//! Logging in: by the agent, in a terminal, by variables, and not at all.

use crate::agent::methods;
use crate::harness::{block_on, me};
use crate::setup::{Project, connect};
use serde_json::json;
use std::path::PathBuf;
use tieline::client::{AgentHandle, Client};
use tieline::{Dialect, Error, Protocol};
use tieline_client::login::{Chooser, Failed, Kind, Launch, Login, Method, Next, is_needed};
use tieline_host::run::{Request, Size};
use tieline_host::sandbox::{Level, Policy};

pub const ALL: &[(&str, fn())] = &[
    ("v1_auth_12_a_terminal_login_has_the_users_terminal", v1_auth_12_a_terminal_login_has_the_users_terminal),
    ("v1_auth_04_12_v2_auth_02_07_login_and_again", v1_auth_04_12_v2_auth_02_07_login_and_again),
    (
        "v1_auth_02_11_v2_auth_05_what_is_not_offered_is_not_used",
        v1_auth_02_11_v2_auth_05_what_is_not_offered_is_not_used,
    ),
    ("v1_auth_06_14_methods_alone_need_no_login", v1_auth_06_14_methods_alone_need_no_login),
    ("v1_auth_09_sessions_may_fail_after_logout", v1_auth_09_sessions_may_fail_after_logout),
];

/// An agent of ours that wants a login, and how it is started.
struct Case {
    project: Project,
    dialect: Dialect,
    launch: Launch,
    file: PathBuf,
}

impl Case {
    fn new(dialect: Dialect) -> Self {
        let project = Project::new();
        let file = project.outside.join("login");
        let mut launch = Launch::new(me(), ["agent", &dialect.to_string()]);
        launch.env = vec![("LOGIN_FILE".into(), file.clone().into()), ("EXTRA".into(), "of the launch".into())];
        Self { project, dialect, launch, file }
    }

    async fn connect(&self) -> tieline::Result<AgentHandle> {
        let services = self.project.services().terminal_login(true).build();
        let client = Client::new("test", "1").offer(|can| services.offer(can)).handler(services);
        client.protocol(Protocol::Only(self.dialect)).spawn_spec(&self.launch.spec()).await
    }

    async fn open(&self, login: Login<'_>) -> Result<String, Failed> {
        let agent = self.connect().await.unwrap();
        let cwd = self.project.root.to_str().unwrap();
        let (agent, session) =
            login.with(agent, async || self.connect().await, async |agent| agent.open(cwd).await).await?;
        let id = session.id().to_string();
        agent.close().await;
        Ok(id)
    }
}

/// Takes the method of this id.
struct Takes(&'static str);

impl Chooser for Takes {
    fn choose<'a>(&'a self, agent: &'a str, methods: &'a [Method]) -> tieline_client::Future<'a, Option<usize>> {
        assert!(!agent.is_empty());
        Box::pin(std::future::ready(methods.iter().position(|method| method.id == self.0)))
    }
}

fn v1_auth_04_12_v2_auth_02_07_login_and_again() {
    block_on(async {
        for dialect in Dialect::ALL {
            // The agent does it; the same request is tried again.
            let case = Case::new(dialect);
            let login = Login { chooser: Some(&Takes("key")), launch: Some(&case.launch), method: None };
            assert_eq!(case.open(login).await.unwrap(), "s", "{dialect}");
            assert_eq!(std::fs::read_to_string(&case.file).unwrap(), "by key", "{dialect}");
            // In a terminal: the agent's own program, its arguments added, its variables overridden; then a new start.
            let case = Case::new(dialect);
            let login = Login { method: Some("term"), chooser: None, launch: Some(&case.launch) };
            assert_eq!(case.open(login).await.unwrap(), "s", "{dialect}");
            let told = std::fs::read_to_string(&case.file).unwrap();
            assert!(told.starts_with("terminal env "), "{dialect}: {told}");
            // Anything but zero is a failure.
            let case = Case::new(dialect);
            let login = Login { method: Some("broken"), chooser: None, launch: Some(&case.launch) };
            let failed = case.open(login).await.unwrap_err();
            assert!(matches!(&failed, Failed::Program(why) if why.contains('3')), "{dialect}: {failed:?}");
            // Where it was done before, nobody is asked.
            std::fs::write(&case.file, "").unwrap();
            assert_eq!(case.open(Login::default()).await.unwrap(), "s", "{dialect}");
        }
    });
}

fn v1_auth_12_a_terminal_login_has_the_users_terminal() {
    // We ourselves, started on a terminal, as a person would.
    block_on(async {
        let project = Project::new();
        let policy = Policy::new(Level::Off, [&project.root]).unwrap();
        let words = [me().into_os_string(), "log-in".into(), project.outside.clone().into()];
        let run = Request::words(words, &project.root, &policy).tty(Size::default()).start().await.unwrap();
        let outcome = run.outcome().await;
        assert!(outcome.is_success(), "{outcome}: {}", run.output(0));
        assert_eq!(std::fs::read_to_string(project.outside.join("login")).unwrap(), "terminal env true");
    });
}

/// A client that logs in by itself, in the foreground.
pub fn log_in(folder: &str) {
    block_on(async {
        let mut case = Case::new(Dialect::V1);
        case.file = PathBuf::from(folder).join("login");
        case.launch.env[0].1 = case.file.clone().into();
        let login = Login { method: Some("term"), chooser: None, launch: Some(&case.launch) };
        assert_eq!(case.open(login).await.unwrap(), "s");
    });
}

fn v1_auth_02_11_v2_auth_05_what_is_not_offered_is_not_used() {
    block_on(async {
        for dialect in Dialect::ALL {
            let case = Case::new(dialect);
            let agent = case.connect().await.unwrap();
            // Nobody to choose: all methods are told, safely.
            let failed = Login::default().run(&agent).await.unwrap_err();
            let text = failed.to_string();
            for part in [
                "key: Key",
                "term: Terminal (in a terminal)",
                "set SOME_API_KEY",
                "https://example.com/keys",
                "odd: Odd",
            ] {
                assert!(text.contains(part), "{dialect}: {part} is not in {text}");
            }
            assert!(matches!(failed, Failed::Needed(methods) if methods.len() == 5) && !text.contains('\u{1b}'));
            let run = async |method: &str, launch: Option<&Launch>| {
                Login { method: Some(method), chooser: None, launch }.run(&agent).await
            };
            let failed = run("invented", None).await.unwrap_err();
            assert!(matches!(&failed, Failed::NoSuchMethod { .. }) && failed.to_string().contains("key"), "V1-AUTH-02");
            // A terminal method never goes over the wire; without a terminal there is no way.
            assert!(matches!(run("term", None).await, Err(Failed::NotHere(_))), "V1-AUTH-11");
            assert!(matches!(run("odd", Some(&case.launch)).await, Err(Failed::NotHere(_))), "V2-AUTH-05");
            let failed = run("var", Some(&case.launch)).await.unwrap_err();
            assert!(matches!(&failed, Failed::Variables(_)) && failed.to_string().contains("SOME_API_KEY"));
            assert!(!case.file.exists(), "nothing was tried");
            let none = Login { chooser: Some(&Takes("nothing")), ..Login::default() }.run(&agent).await;
            assert_eq!(none, Err(Failed::Declined));
            assert_eq!(run("key", None).await, Ok(Next::Retry));
            agent.close().await;
        }
    });
}

fn v1_auth_06_14_methods_alone_need_no_login() {
    block_on(async {
        for dialect in Dialect::ALL {
            let project = Project::new();
            let services = project.services().build();
            let (_wire, agent) = connect(&services, dialect, methods(dialect)).await;
            let login = Login::default();
            // The work succeeds, so nobody logs in although there are methods.
            let (agent, done) =
                login.with(agent, async || Err(Error::Cancelled), async |_| Ok(7)).await.expect("V1-AUTH-06");
            assert_eq!(done, 7);
            // Other errors are no reason either.
            let failed = login
                .with(agent, async || Err(Error::Cancelled), async |_| Err::<(), _>(Error::wire(-32603, "broken")))
                .await
                .unwrap_err();
            assert!(matches!(failed, Failed::Agent(error) if error.code() == Some(-32603)));
        }
        let project = Project::new();
        let plain = json!([{"id": "plain", "name": "No type"}]);
        let (_wire, agent) = connect(&project.services().build(), Dialect::V1, plain).await;
        assert_eq!(Method::of(&agent.auth_methods()[0]).kind, Kind::Agent, "V1-AUTH-14");
        assert!(is_needed(&Error::auth_required()) && is_needed(&Error::wire(-32000, "x")));
        assert!(!is_needed(&Error::wire(-32001, "x")));
    });
}

fn v1_auth_09_sessions_may_fail_after_logout() {
    block_on(async {
        let case = Case::new(Dialect::V1);
        std::fs::write(&case.file, "").unwrap();
        let agent = case.connect().await.unwrap();
        let cwd = case.project.root.to_str().unwrap();
        agent.open(cwd).await.unwrap();
        // Logged out behind our back: the next session is a reason to log in again.
        std::fs::remove_file(&case.file).unwrap();
        let login = Login { method: Some("key"), ..Login::default() };
        let (agent, session) =
            login.with(agent, async || case.connect().await, async |agent| agent.open(cwd).await).await.unwrap();
        assert_eq!(session.id().as_str(), "s");
        agent.close().await;
    });
}
