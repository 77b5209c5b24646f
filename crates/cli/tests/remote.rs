//! `tieline` with an agent that runs elsewhere: by its address, by a name of the configuration, and everything that can be wrong with it.
#![allow(clippy::unwrap_used)]

mod command;

use command::{User, finish};
use std::process::Stdio;
use std::sync::mpsc;
use tieline_http::Server;
use tieline_http::server::{Arrival, Listener, Rules, Tokens};
use tieline_rpc::{Transport, join};

/// A server with the built-in agent behind it, a process for each client; it ends with its thread's runtime.
struct Elsewhere {
    address: String,
    _stop: tokio::sync::oneshot::Sender<()>,
}

impl Elsewhere {
    fn new(user: &User) -> Self {
        let (tell, told) = mpsc::channel();
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let (home, project) = (user.path("home"), user.path("project"));
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let (arrivals, mut arrived) = tokio::sync::mpsc::channel::<Arrival>(8);
                let server = Server::new(Rules::default(), Tokens::default().with("me", "s3cret"), arrivals);
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
                tell.send(listener.local_addr().unwrap().to_string()).unwrap();
                let take = async {
                    while let Some(arrival) = arrived.recv().await {
                        let mut agent = tokio::process::Command::new(env!("CARGO_BIN_EXE_tieline"));
                        agent.arg("agent").env("HOME", &home).current_dir(&project).kill_on_drop(true);
                        let mut agent = agent.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
                        let (output, input) = (agent.stdout.take().unwrap(), agent.stdin.take().unwrap());
                        tokio::spawn(async move {
                            join(arrival.transport, Transport::new(output, input)).await;
                            drop(agent);
                        });
                    }
                };
                tokio::select! {
                    () = server.listen(Listener::Tcp(listener)) => {}
                    () = take => {}
                    _ = stopped => {}
                }
            });
        });
        Self { address: told.recv().unwrap(), _stop: stop }
    }
}

#[test]
fn an_agent_by_its_address() {
    let user = User::new();
    user.write("project/notes.txt", "one line\n");
    let there = Elsewhere::new(&user);
    for scheme in ["ws", "http"] {
        for protocol in ["1", "2-seed", "2"] {
            let url = format!("{scheme}://{}", there.address);
            let line = ["exec", "--protocol", protocol, "--agent", &url, "show notes.txt"];
            let mut command = user.command(&line);
            let done = finish(command.env("TIELINE_AGENT_TOKEN", "s3cret").spawn().unwrap()).good();
            assert!(done.out.contains("one line"), "{url} {protocol}: {}{}", done.out, done.err);
        }
    }
}

#[test]
fn an_agent_of_the_configuration_and_the_doctor() {
    let user = User::new();
    user.write("project/notes.txt", "one line\n");
    let there = Elsewhere::new(&user);
    for scheme in ["http", "ws"] {
        let url = format!("{scheme}://{}/acp", there.address);
        user.run(&["agents", "add", "--replace", "far", "--", &url]).good();
        let path = "home/.config/tieline/config.toml";
        let text = user.read(path).unwrap();
        assert!(text.contains(&format!("url = \"{url}\"")), "{text}");
        user.write(path, &format!("{text}headers = {{ Authorization = \"Bearer s3cret\" }}\n"));
        let done = user.run(&["exec", "-a", "far", "-s", "work", "show notes.txt"]).good();
        assert!(done.out.contains("one line"), "{}{}", done.out, done.err);
        // The session is taken up again on a new connection.
        user.run(&["exec", "-a", "far", "-s", "work", "list the files"]).good();
        let done = user.run(&["doctor", "far", "--no-prompt"]).good();
        assert!(done.out.contains("connected") && done.out.contains("far works."), "{}", done.out);
        let shown = user.run(&["config", "show"]).good();
        assert!(!shown.out.contains("s3cret"), "{}", shown.out);
    }
}

#[test]
fn what_is_wrong_is_said() {
    let user = User::new();
    let there = Elsewhere::new(&user);
    for scheme in ["http", "ws"] {
        let url = format!("{scheme}://{}", there.address);
        user.run(&["exec", "--agent", &url, "hi"]).bad(6, "it wants a credential (401)");
        user.run(&["exec", "--agent", &url, "hi"]).bad(6, "TIELINE_AGENT_TOKEN=…");
        let elsewhere = format!("{url}/nowhere");
        user.run(&["exec", "--agent", &elsewhere, "hi"]).bad(7, "there is no agent at this path (404)");
        let nobody = format!("{scheme}://127.0.0.1:1");
        user.run(&["exec", "--agent", &nobody, "hi"]).bad(7, "can't connect");
        let done = user.run(&["doctor", &nobody]);
        assert_eq!(done.code, 7, "{}{}", done.out, done.err);
    }
    user.write("home/.config/tieline/config.toml", "[agents.x]\nurl = \"ftp://h\"\n");
    user.run(&["exec", "-a", "x", "hi"]).bad(14, "wss://host/acp");
    user.write("home/.config/tieline/config.toml", "[agents.x]\nurl = \"ws://h\"\ncommand = [\"a\"]\n");
    user.run(&["exec", "-a", "x", "hi"]).bad(14, "a command and a url");
}
