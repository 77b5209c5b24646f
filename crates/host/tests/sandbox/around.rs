//! What lies around the root and leads into it, and secrets that are not where they usually are, from a hostile command's side.

use super::attacks::{guarded, held, make, sh};
use crate::harness::{block_on, me};
use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use tieline_host::run::Request;
use tieline_host::sandbox::{Level, Mechanism, Policy};

const REPOSITORY: [(&str, &str); 3] =
    [(".git/HEAD", "ref: refs/heads/main\n"), (".git/objects/x", ""), (".git/refs/x", "")];

/// The root is a folder inside a repository, whose hooks and settings lead into it.
pub fn what_a_repository_above_runs_is_guarded(base: &Path) {
    // The settings, links of the repository, the attack, and whether it is held without a question.
    type Case = (&'static str, &'static str, &'static [(&'static str, &'static str)], &'static str, bool);
    let cases: &[Case] = &[
        ("hooks", "[core]\nhooksPath = root/hooks\n", &[], "echo evil > hooks/pre-commit", true),
        ("fsmonitor", "[core]\nfsmonitor = root/tools/run\n", &[], "echo evil > tools/run", true),
        ("included", "[include]\npath = ../root/tools/run\n", &[], "echo evil > tools/run", true),
        ("moved", "[core]\nfsmonitor = root/tools/run\n", &[], "mv tools t && cp -r t tools", true),
        ("absent", "[core]\nfsmonitor = root/tools/new\n", &[], "echo evil > tools/new", false),
        ("itself", "[core]\nhooksPath = root\n", &[], "echo evil > pre-commit", false),
        ("link", "", &[(".git/hooks/pre-commit", "../../root/tools/run")], "echo evil > tools/run", true),
        ("linked", "", &[(".git/hooks", "../root/hooks")], "echo evil > hooks/pre-commit", true),
        ("editor", "", &[(".vscode/tasks.json", "../root/tools/run")], "echo evil > tools/run", true),
        ("workflow", "", &[(".github/workflows", "../root/tools")], "echo evil > tools/ci.yml", true),
        ("envrc", "", &[(".envrc", "root/tools/run")], "echo evil > tools/run", true),
    ];
    for (name, config, links, line, silent) in cases {
        let top = base.join(name);
        make(&top, &REPOSITORY);
        make(&top, &[(".git/config", config), ("root/hooks/x", ""), ("root/tools/run", "x"), ("root/src/lib", "")]);
        for (at, to) in *links {
            fs::create_dir_all(top.join(at).parent().unwrap()).unwrap();
            symlink(to, top.join(at)).unwrap();
        }
        let root = top.join("root");
        let policy = guarded(&root);
        assert_eq!(policy.guarded().is_whole(), *silent, "{name}: {:?}", policy.guarded().gap());
        held(line, &root, &policy);
        let (did, said) = block_on(sh("echo x > src/lib && echo x > made", &root, &policy));
        assert!(did, "{name}: what nothing leads to can be changed: {said}");
    }
    // Another name of a hook.
    let top = base.join("twin");
    make(&top, &REPOSITORY);
    make(&top, &[(".git/hooks/pre-commit", "x"), ("root/x", "")]);
    fs::hard_link(top.join(".git/hooks/pre-commit"), top.join("root/run")).unwrap();
    held("echo evil >> run", &top.join("root"), &guarded(&top.join("root")));
    // A root that is inside of what git keeps for itself.
    let top = base.join("inner");
    make(&top, &REPOSITORY);
    make(&top, &[(".git/hooks/x", "")]);
    assert!(!guarded(&top.join(".git/hooks")).guarded().is_whole(), "in the folder of hooks");
}

/// Settings of the home are links into the root, as people have them who keep those in a repository.
pub fn settings_of_the_home_that_lead_into_the_root_are_guarded(base: &Path) {
    let (home, root) = (base.join("home"), base.join("home/dotfiles"));
    let files = ["bashrc", "nvim/init.lua", "nvim/lua/x.lua", "units/x.service", "ssh/config", "gitconfig", "bin/x"];
    make(&root, &files.map(|name| (name, "x")));
    make(&root, &[("notes", "x")]);
    make(&home, &[(".config/systemd/user/y", ""), (".ssh/known_hosts", ""), (".local/bin/y", "")]);
    for (at, to) in [
        (".bashrc", "dotfiles/bashrc"),
        (".config/nvim", "../dotfiles/nvim"),
        (".config/systemd/user/x.service", "../../../dotfiles/units/x.service"),
        (".ssh/config", "../dotfiles/ssh/config"),
        (".gitconfig", "dotfiles/gitconfig"),
        (".local/bin/x", "../../dotfiles/bin/x"),
    ] {
        symlink(to, home.join(at)).unwrap();
    }
    let policy = guarded(&root);
    assert!(policy.guarded().is_whole(), "{:?}", policy.guarded().gap());
    for name in files {
        // A key is not even seen there, so that what is written to it is lost.
        block_on(sh(&format!("echo evil >> {name}; mv {name} old && cp old {name}"), &root, &policy));
        assert_eq!(fs::read_to_string(root.join(name)).unwrap(), "x", "{name}");
    }
    let (did, said) = block_on(sh("echo x > notes && echo x > new", &root, &policy));
    assert!(did, "{said}");
    // One that is not there yet is asked for.
    symlink("dotfiles/zshrc", home.join(".zshrc")).unwrap();
    let policy = guarded(&root);
    assert!(!policy.guarded().is_whole(), "what is not there yet");
    fs::remove_file(home.join(".zshrc")).unwrap();
    // The whole folder of settings is a link: also what is new in it.
    fs::remove_dir_all(home.join(".config")).unwrap();
    make(&root, &[("config/x", "")]);
    symlink("dotfiles/config", home.join(".config")).unwrap();
    let policy = guarded(&root);
    assert!(policy.guarded().is_whole(), "{:?}", policy.guarded().gap());
    held("mkdir config/autostart && echo evil > config/autostart/x", &root, &policy);
}

/// Keys are links in a folder that is hidden, and lead to where nothing is.
pub fn keys_that_are_links_are_hidden_where_they_lead(base: &Path) {
    let (home, root) = (base.join("home"), base.join("home/work"));
    make(&root, &[("x", "")]);
    make(
        &home,
        &[
            ("dotfiles/id", "SECRET"),
            ("dotfiles/open", "open"),
            ("dotfiles/gpg/key", "SECRET"),
            ("deep/hosts", "SECRET"),
            (".ssh/config", ""),
            (".gnupg/x", ""),
            (".config/gh/x", ""),
        ],
    );
    make(base, &[("elsewhere/token", "SECRET")]);
    symlink("../dotfiles/id", home.join(".ssh/id")).unwrap();
    symlink("../dotfiles/gpg", home.join(".gnupg/private-keys-v1.d")).unwrap();
    symlink(home.join("deep/hosts"), home.join(".config/gh/hosts.yml")).unwrap();
    symlink(base.join("elsewhere/token"), home.join(".ssh/token")).unwrap();
    // These hide neither the home, nor the system, nor the root.
    symlink("..", home.join(".ssh/home")).unwrap();
    symlink("/usr/bin", home.join(".ssh/programs")).unwrap();
    symlink("/", home.join(".ssh/all")).unwrap();
    symlink(&root, home.join(".ssh/work")).unwrap();
    let line = format!(
        "cd {}; ls dotfiles deep work; cat dotfiles/id dotfiles/gpg/key deep/hosts ../elsewhere/token dotfiles/open work/x",
        home.display()
    );
    for level in [Level::ReadOnly, Level::Workspace] {
        let (_, said) = block_on(sh(&line, &root, &Policy::new(level, [&root]).unwrap()));
        assert!(!said.contains("SECRET") && said.contains("open"), "{level}: {said}");
    }
    // The same in the root.
    let policy = guarded(&home.join("dotfiles"));
    let (_, said) = block_on(sh("cat id gpg/key; echo x > new", &home.join("dotfiles"), &policy));
    assert!(!said.contains("SECRET"), "{said}");
}

/// Variables name other places of secrets.
pub fn secrets_that_variables_name_are_hidden(base: &Path) {
    let (root, moved) = (base.join("root"), base.join("moved"));
    make(&root, &[("x", "")]);
    // The variable, what it says, and where the secret is then.
    let cases = [
        ("AWS_SHARED_CREDENTIALS_FILE", "aws", "aws"),
        ("AWS_CONFIG_FILE", "aws-config", "aws-config"),
        ("KUBECONFIG", "kube-none:MOVED/kube", "kube"),
        ("DOCKER_CONFIG", "docker", "docker/config.json"),
        ("GNUPGHOME", "gpg", "gpg/private-keys-v1.d/x"),
        ("CARGO_HOME", "cargo", "cargo/credentials.toml"),
        ("NPM_CONFIG_USERCONFIG", "npm", "npm"),
        ("npm_config_userconfig", "npm-small", "npm-small"),
        ("NETRC", "netrc", "netrc"),
        ("XDG_CONFIG_HOME", "config", "config/gh/hosts.yml"),
        ("XDG_DATA_HOME", "data", "data/keyrings/x"),
        ("XDG_STATE_HOME", "state", "state/tieline/x"),
        ("GOOGLE_APPLICATION_CREDENTIALS", "google.json", "google.json"),
        ("CLOUDSDK_CONFIG", "gcloud", "gcloud/credentials.db"),
        ("AZURE_CONFIG_DIR", "azure", "azure/x"),
        ("GH_CONFIG_DIR", "gh", "gh/hosts.yml"),
        ("PGPASSFILE", "pgpass", "pgpass"),
        ("PASSWORD_STORE_DIR", "pass", "pass/x.gpg"),
        ("CLAUDE_CONFIG_DIR", "claude", "claude/.credentials.json"),
        ("CODEX_HOME", "codex", "codex/auth.json"),
        ("HISTFILE", "history", "history"),
        ("SOPS_AGE_KEY_FILE", "age", "age"),
        ("KRB5CCNAME", "FILE:MOVED/ticket", "ticket"),
        ("REGISTRY_AUTH_FILE", "registry", "registry"),
    ];
    let places = cases.map(|(.., place)| place);
    make(&moved, &places.map(|place| (place, "SECRET")));
    make(&moved, &[("open", "open"), ("cargo/config.toml", "open"), ("config/x", "open")]);
    let mut command = Command::new(me());
    for (name, value, _) in cases {
        let place = moved.display().to_string();
        let value = if value.contains("MOVED") { value.replace("MOVED", &place) } else { format!("{place}/{value}") };
        command.env(name, value);
    }
    // What leads to the home, to a device or to nothing hides nothing.
    command
        .env("LESSHISTFILE", "/dev/null")
        .env("DATABRICKS_CONFIG_FILE", base.join("home"))
        .env("RCLONE_CONFIG", "")
        .env("OCI_CLI_CONFIG_FILE", "/");
    make(&base.join("home"), &[("notes", "mine")]);
    let line = format!(
        "cd {}; cat ../home/notes cargo/config.toml; for f in {}; do echo \"$f $(cat $f)\"; done",
        moved.display(),
        places.join(" ")
    );
    let said = command.arg("run").arg(&root).arg(line).output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    let seen: Vec<&str> = said.lines().filter(|line| line.contains("SECRET")).collect();
    assert!(seen.is_empty(), "{seen:?}");
    assert!(said.contains("mine") && said.contains("open"), "{said}");
}

/// Sockets of services whose names the kernel does not know from the top, or not any more.
pub fn sockets_by_relative_names_are_not_reached(base: &Path) {
    let (root, daemon) = (base.join("root"), base.join("daemon"));
    make(&root, &[("x", "")]);
    make(&daemon.join("sub"), &[("notes", "mine")]);
    std::env::set_current_dir(&daemon).unwrap();
    let renamed = UnixListener::bind(daemon.join("sub/old")).unwrap();
    fs::rename(daemon.join("sub/old"), daemon.join("sub/renamed")).unwrap();
    let listeners = [
        ("plain", UnixListener::bind("plain").unwrap()),
        ("sub/below", UnixListener::bind("./sub/below").unwrap()),
        ("sub/renamed", renamed),
    ];
    let tries: Vec<String> = listeners
        .iter()
        .map(|(name, _)| format!("{} try unix {}", me().display(), daemon.join(name).display()))
        .collect();
    let policy = Policy::new(Level::Workspace, [&root]).unwrap();
    let line = format!("cat {}/sub/notes; {}; true", daemon.display(), tries.join("; "));
    let (_, said) = block_on(sh(&line, &root, &policy));
    assert!(said.contains("mine"), "what is beside it can be read: {said}");
    for (name, listener) in &listeners {
        listener.set_nonblocking(true).unwrap();
        assert!(listener.accept().is_err(), "{name} was reached: {said}");
    }
}

/// Variables of the person's environment that name files of the root.
pub fn what_variables_name_is_guarded(base: &Path) {
    let root = base.join("root");
    make(&root, &[("tools/run", "x"), ("tools/bin/x", "x"), ("lib/a.py", "x"), ("cargo/config.toml", "x")]);
    make(&root, &REPOSITORY);
    make(&base.join("outside"), &[("x", "")]);
    make(&base.join("linked"), &[("x", "")]);
    fs::hard_link(root.join("tools/run"), base.join("outside/hard")).unwrap();
    symlink("../root/tools/run", base.join("linked/run")).unwrap();
    // The variable, its value below the root, the attack, and whether it is held without a question.
    for (variable, value, line, silent) in [
        ("GIT_CONFIG_GLOBAL", "ROOT/tools/run", "echo evil > tools/run", true),
        ("GIT_CONFIG_GLOBAL", "ROOT/tools/new", "echo evil > tools/new", false),
        ("GIT_CONFIG_SYSTEM", "tools/run", "echo evil > tools/run", true),
        ("GIT_TEMPLATE_DIR", "ROOT/tools", "mkdir tools/hooks", true),
        ("GIT_EXTERNAL_DIFF", "ROOT/tools/run --x", "echo evil > tools/run", true),
        ("GIT_SSH_COMMAND", "ssh -o ProxyCommand=ROOT/tools/run", "echo evil > tools/run", true),
        ("GIT_CONFIG_VALUE_0", "!ROOT/tools/run", "echo evil > tools/run", true),
        ("GIT_CONFIG_PARAMETERS", "'core.hooksPath'='tools'", "echo evil > tools/pre-commit", true),
        ("GIT_CONFIG_PARAMETERS", "'core.hooksPath=hooks'", "mkdir hooks", false),
        ("GIT_PAGER", "ROOT/tools/new", "echo evil > tools/new", false),
        ("EDITOR", "./tools/run", "echo evil > tools/run", true),
        ("BROWSER", "sh tools/run %s", "mv tools/run tools/old", true),
        ("LESSOPEN", "|ROOT/tools/run %s", "rm tools/run", true),
        ("BASH_ENV", "ROOT/tools/run", "mv tools t", true),
        ("ENV", "ROOT/tools/run", "echo evil > tools/run", true),
        ("INPUTRC", "ROOT/tools/run", "echo evil > tools/run", true),
        ("PYTHONSTARTUP", "ROOT/tools/run", "echo evil > tools/run", true),
        ("NODE_OPTIONS", "--require=./tools/run --x", "echo evil > tools/run", true),
        ("NODE_OPTIONS", "--x -r ROOT/tools/run", "echo evil > tools/run", true),
        ("RUBYOPT", "-w -rROOT/tools/run", "echo evil > tools/run", true),
        ("VIMINIT", ":source ROOT/tools/run", "echo evil > tools/run", true),
        ("LUA_INIT", "@ROOT/tools/run", "echo evil > tools/run", true),
        ("CARGO_HOME", "ROOT/cargo", "echo evil > cargo/config.toml", true),
        ("GOPATH", "ROOT/tools", "echo evil > tools/bin/x", true),
        ("PATH", "/usr/bin:/bin:ROOT/tools/bin", "echo evil > tools/bin/ls", true),
        ("PATH", "ROOT/tools/bin:/usr/bin:/bin", "mv tools/bin b", true),
        ("PATH", "/usr/bin:/bin:tools/bin", "echo evil > tools/bin/ls", true),
        ("PATH", "/usr/bin:/bin:ROOT/later", "mkdir later", false),
        ("PATH", "/usr/bin:/bin:.", "echo evil > ls", false),
        ("PATH", "/usr/bin:/bin:", "echo evil > ls", false),
        // Whatever a variable is called.
        ("PSQL_PAGER", "./tools/run -x", "echo evil > tools/run", true),
        ("ANY_NAME", "a=1,b=ROOT/tools/run", "echo evil > tools/run", true),
        ("SOME_RC", "tools/run", "mv tools/run tools/old", true),
        // Another name, and links, of what is run.
        ("EDITOR", "ROOT/../outside/hard -w", "echo evil > tools/run", true),
        ("TIELINE_CONFIG", "ROOT/../outside/hard", "echo evil > tools/run", true),
        ("PATH", "/usr/bin:/bin:ROOT/../outside", "echo evil > tools/run", true),
        ("PATH", "/usr/bin:/bin:ROOT/../linked", "echo evil > tools/run", true),
        ("OLDPWD", "ROOT/tools", "test -d nowhere", true),
        // Work goes on where it is code of the project.
        ("PYTHONPATH", "ROOT/lib", "test -d nowhere", true),
        ("EDITOR", "vim -u NONE", "test -d nowhere", true),
    ] {
        let value = value.replace("ROOT", root.to_str().unwrap());
        let mut plant = Command::new(me());
        let plant = plant.arg("plant").arg(&root).arg(line).env(variable, &value).current_dir("/");
        let done = plant.output().unwrap();
        let said = String::from_utf8_lossy(&done.stdout);
        assert!(done.status.success(), "{variable}={value} {line}: {}", String::from_utf8_lossy(&done.stderr));
        assert_eq!(said.contains("whole"), silent, "{variable}={value}: {said}");
        for (path, _) in [("tools/run", ""), ("tools/bin/x", ""), ("lib/a.py", ""), ("cargo/config.toml", "")] {
            assert_eq!(fs::read_to_string(root.join(path)).unwrap_or_default(), "x", "{variable}={value}: {path}");
        }
    }
}

/// What our own configuration has us start, without a sandbox, lies in the root. By whatever words it is named, no command changes it,
/// and none makes what would win over it, unless it is asked for.
pub fn what_we_start_ourselves_is_guarded(base: &Path) {
    // The command, its variables, the attack, and whether it is held without a question.
    let cases: &[(&str, &str, &str, bool)] = &[
        ("'python3', 'ROOT/tools/srv.py'", "", "echo evil > tools/srv.py", true),
        ("'ROOT/tools/x.sh'", "", "rm -f tools/x.sh", true),
        ("'./later/run'", "", "mkdir later", false),
        ("'true'", "A = { command = ['sh', 'key'] }", "echo evil > key", true),
        ("'sh', '-c', './tools/x.sh --y'", "", "echo evil > tools/x.sh", true),
        ("'sh', '-c', 'cd tools && exec ./x.sh'", "", "echo evil > tools/x.sh", true),
        ("'sh', '-c', '\"$PWD\"/tools/x.sh; true'", "", "echo evil > tools/x.sh", true),
        ("'env', '-S', 'bash tools/x.sh'", "", "echo evil > tools/x.sh", true),
        ("'srvx'", "PATH = 'ROOT/bin:/usr/bin:/bin'", "echo evil > bin/srvx", true),
        ("'srvx'", "PATH = 'ROOT/bin:/usr/bin:/bin'", "echo evil > bin/env", true),
        ("'python3', '-m', 'pkg.srv'", "", "echo evil > pkg/srv.py", true),
        ("'python3', '-um', 'pkg.srv'", "", "echo evil > pkg/srv.py", true),
        ("'python3', '-mpkg.srv'", "", "echo evil > pkg/srv.py", true),
        ("'sh', '-c', 'python3 -m pkg.srv'", "", "echo evil > pkg/srv.py", true),
        ("'python3', '-m', 'pkg.srv'", "", "echo evil > pkg/__init__.py", true),
        ("'python3', '-m', 'pkg.srv'", "", "mkdir pkg/srv", true),
        (
            "'python3', '-m', 'pkg.srv'",
            "",
            "mkdir pkg/__pycache__ && echo evil > pkg/__pycache__/srv.cpython-311.pyc",
            true,
        ),
        ("'python3', '-m', 'tools.srv'", "", "echo evil > tools/__init__.py", false),
        ("'python3', '-m', 'one'", "", "echo evil > one.py", false),
        // Where it is started comes first.
        ("'python3', '-m', 'srv'", "PYTHONPATH = 'ROOT/tools'", "echo evil > srv.py", false),
        ("'python3', 'tools/x.sh', '-m', 'srv'", "PYTHONPATH = 'tools'", "mkdir tools/srv", false),
        ("'python3', 'tools'", "", "echo evil > tools/__main__.py", true),
        ("'node', 'tools/a'", "", "echo evil > tools/a.js", true),
        ("'node', 'tools/a'", "", "echo evil > tools/a", true),
        ("'node', 'srv'", "", "echo evil > srv/index.js", false),
        ("'node', 'srv/'", "", "echo evil > srv/lib/m.js", true),
        ("'node', '--import', 'file://ROOT/tools/a.js', '/dev/null'", "", "echo evil > tools/a.js", true),
        ("'node', '/dev/null'", "NODE_OPTIONS = '--require ./tools/a.js'", "echo evil > tools/a.js", true),
        ("'npx', '-y', '@s/srvx@1'", "", "echo evil > node_modules/@s/srvx/cli.js", true),
        ("'npx', 'srvx'", "", "rm node_modules/.bin/srvx && echo evil > node_modules/.bin/srvx", true),
        ("'npx', 'srvx'", "", "echo evil > package.json", true),
        ("'npm', 'start'", "", "echo evil > tools/a.js", true),
        ("'make', '-C', 'tools', 'srv'", "", "echo evil > tools/Makefile", true),
        ("'make', 'srv'", "", "echo evil > Makefile", true),
        ("'java', '-cp', 'lib/a.jar:lib/b.jar', 'Main'", "", "echo evil > lib/b.jar", true),
        ("'java', '-cp', 'lib/*', 'Main'", "", "echo evil > lib/c.jar", true),
        ("'uv', '--directory', 'ROOT/tools', 'run', 'srv'", "", "echo evil > tools/srv.py", true),
        ("'tools/y'", "", "echo evil > tools/interpreter", true),
        ("'cargo', 'run'", "", "test -d nowhere", true),
        // The root itself is the program.
        ("'node', '.'", "", "echo evil > index.js", false),
        ("'node', '--require', './tools/a.js', './'", "", "echo evil > index.js", false),
        ("'node', '-e', 'require(\"./\")'", "", "echo evil > index.js", false),
        ("'python3', '.'", "", "echo evil > __main__.py", false),
        ("'python3', '-u', '-X', 'dev', 'ROOT'", "", "echo evil > __main__.py", false),
        ("'sh', '-c', 'exec python3 \"$PWD\"'", "", "echo evil > __main__.py", false),
        ("'uvx', '--python', '3.12', '--from', '.', 'srv'", "", "echo evil > setup.py", false),
        ("'uvx', '--from=ROOT', 'srv'", "", "echo evil > setup.py", false),
        ("'npx', '.'", "", "echo evil > index.js", false),
        ("'bun', 'run', '.'", "", "echo evil > index.js", false),
        ("'java', '-cp', 'lib/a.jar:.', 'Main'", "", "echo evil > Main.class", false),
        // It is only what the program is to look at.
        ("'npx', '-y', '@s/srvx@1', 'ROOT'", "", "echo evil > package.json", true),
        ("'node', 'tools/a.js', '.'", "", "echo evil > tools/a.js", true),
        ("'python3', 'tools/srv.py', 'ROOT', '--from', '.'", "", "echo evil > tools/srv.py", true),
        ("'uvx', 'srvx', '--repository', '.'", "", "test -d nowhere", true),
        ("'ROOT/../outside/hard'", "", "echo evil > tools/x.sh", true),
        ("'ROOT/../outside/chain'", "", "echo evil > tools/x.sh", true),
        ("'ROOT/../outside/linked/x.sh'", "", "echo evil > tools/x.sh", true),
        ("'hard'", "PATH = 'ROOT/../outside:/usr/bin'", "echo evil > tools/x.sh", true),
        ("'python3', 'ROOT/../outside/hard'", "", "echo evil > tools/x.sh", true),
    ];
    let mut wrong = Vec::new();
    for (at, (command, env, line, silent)) in cases.iter().enumerate() {
        let root = base.join(format!("{at}/root"));
        make(
            &root,
            &[
                "tools/srv.py",
                "tools/x.sh",
                "tools/a.js",
                "tools/Makefile",
                "tools/interpreter",
                "tools/__main__.py",
                "bin/srvx",
                "key",
            ]
            .map(|name| (name, "x")),
        );
        make(
            &root,
            &["pkg/__init__.py", "pkg/srv.py", "one.py", "srv/index.js", "srv/lib/m.js", "lib/a.jar", "lib/b.jar"]
                .map(|name| (name, "x")),
        );
        make(
            &root,
            &[("package.json", "{\"scripts\": {\"start\": \"node tools/a.js\"}}"), ("Makefile", "x"), ("open", "x")],
        );
        make(
            &root,
            &[("node_modules/@s/srvx/cli.js", "x"), ("tools/y", "#!tools/interpreter\n"), ("src/main.rs", "x")],
        );
        make(&root, &[("node_modules/.bin/other", "x")]);
        symlink("../@s/srvx/cli.js", root.join("node_modules/.bin/srvx")).unwrap();
        let outside = base.join(format!("{at}/outside"));
        make(&outside, &[("x", "")]);
        fs::hard_link(root.join("tools/x.sh"), outside.join("hard")).unwrap();
        symlink("link", outside.join("chain")).unwrap();
        symlink("../root/tools/x.sh", outside.join("link")).unwrap();
        symlink("../root/tools", outside.join("linked")).unwrap();
        let text =
            format!("[mcp.a]\ncommand = [{command}]\nenv = {{ {env} }}\n").replace("ROOT", root.to_str().unwrap());
        let text = if env.contains("command") {
            text
        } else {
            text.replace("mcp.a", if at % 2 == 0 { "mcp.a" } else { "agents.a" })
        };
        let place = base.join(format!("{at}/config.toml"));
        fs::write(&place, text).unwrap();
        let done = Command::new(me()).arg("start").arg(&root).arg(&place).arg(line).output().unwrap();
        let said = String::from_utf8_lossy(&done.stdout);
        let asks = said.contains("asked");
        if !done.status.success() || asks == *silent {
            let why = String::from_utf8_lossy(&done.stderr);
            wrong.push(format!("{command} {env}: {line}: {said}{}", why.lines().take(3).collect::<String>()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// From the other process: what a configuration has us start, and a hostile line.
pub fn start(root: &Path, config: &Path, line: &str) {
    let sources = tieline_host::config::Sources { user: Some(config.to_owned()), ..Default::default() };
    tieline_host::config::Config::load(&sources, &tieline_host::config::Flags::default()).unwrap();
    let policy = guarded(root);
    match policy.guarded().gap() {
        Some(gap) => println!("asked: {gap}"),
        None => {
            held(line, root, &policy);
            assert!(block_on(sh("echo y > open && echo y > new", root, &policy)).0);
        }
    }
}

/// The folder behind `/tmp` of commands, replaced by one command for the next.
pub fn the_private_folder_is_not_replaced(base: &Path) {
    let home = base.join("home");
    make(
        &home,
        &[(".aws/credentials", "SECRET"), ("q/tmp/x", ""), ("q/.git/HEAD", ""), ("tmp/x", ""), (".profile", "x")],
    );
    let ways = [
        "cd tmp; for d in tieline-run-*; do mv $d $d.x; mkdir $d; ln -s $HOME $d/tmp; done",
        "cd tmp; for d in tieline-run-*; do mv $d $d.x; ln -s $HOME $d; done; ln -s $HOME $HOME/tmp; ln -s . ../tmp/tmp",
        "cd tmp; for d in tieline-run-*; do mv $d/tmp $d/old; ln -s $HOME $d/tmp; done",
    ];
    for (root, temp) in [("q", "q/tmp"), ("", "tmp"), ("", "q/tmp")] {
        for way in ways {
            let way = if root.is_empty() && temp == "q/tmp" { format!("cd q; {way}") } else { way.to_owned() };
            let steal =
                "cat /tmp/.aws/credentials; echo evil >> /tmp/.profile; echo evil > /tmp/q/.git/pre-commit; echo ran";
            let mut command = Command::new(me());
            command.args(["lines".as_ref(), home.join(root).as_os_str(), way.as_ref(), steal.as_ref()]);
            let out = command.env("TMPDIR", home.join(temp)).env("HOME", &home).output().unwrap();
            let said = String::from_utf8_lossy(&out.stdout).into_owned();
            assert!(said.contains("ran") && !said.contains("SECRET"), "{root} {temp} {way}: {said}");
            assert_eq!(fs::read_to_string(home.join(".profile")).unwrap(), "x", "{root} {temp} {way}");
            assert!(!home.join("q/.git/pre-commit").exists(), "{root} {temp} {way}");
        }
    }
    // By another program, where no command can reach it.
    for policy in [guarded(&home.join("q")), guarded(&home.join("q")).without(Mechanism::Namespaces)] {
        let named = policy.clone().without(Mechanism::Namespaces);
        let (did, place) = block_on(sh("echo $TMPDIR", &home.join("q"), &named));
        let place = Path::new(place.trim());
        assert!(did && place.is_dir(), "{}", place.display());
        fs::remove_dir(place).unwrap();
        symlink(&home, place).unwrap();
        let error = block_on(Request::shell("cat /tmp/.profile", home.join("q"), &policy).start()).unwrap_err();
        assert!(error.to_string().contains("tieline-run-"), "{error}");
        fs::remove_file(place).unwrap();
    }
}
