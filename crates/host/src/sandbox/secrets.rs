//! What commands have no business to read: keys, tokens, histories, other people's homes, and the sockets of services.

use super::Pinned;
use super::around::{links, place};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::env;
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// Below the home folder.
const IN_HOME: &str = "
    .ssh .gnupg .aws .azure .kube .minikube .oci .bluemix .netrc .npmrc .yarnrc .yarnrc.yml .pypirc .pgpass .my.cnf .mylogin.cnf
    .vault-token .git-credentials .password-store .databrickscfg .snowsql .s3cfg .boto .pulumi .fly .railway .vercel .wrangler
    .docker/config.json .docker/run .docker/desktop .colima .lima .orbstack .rd
    .cargo/credentials .cargo/credentials.toml .gem/credentials .bundle/config .composer/auth.json .m2/settings.xml
    .m2/settings-security.xml .gradle/gradle.properties .nuget/NuGet .pip/pip.conf .subversion/auth
    .terraform.d/credentials.tfrc.json .terraformrc .huggingface .kaggle
    .config/gcloud .config/gh .config/glab-cli .config/hub .config/git/credentials .config/op .config/rclone .config/sops
    .config/age .config/containers/auth.json .config/composer/auth.json .config/pypoetry/auth.toml .config/pip .config/NuGet
    .config/doctl .config/hcloud .config/netlify .config/configstore .config/snowflake .config/solana .config/tieline
    .config/1Password .config/Bitwarden .config/keepassxc .config/systemd/user.control
    .claude/.credentials.json .claude.json .config/claude .codex/auth.json .codex/history.jsonl .codex/sessions
    .gemini/oauth_creds.json .gemini/google_accounts.json .gemini/.env .qwen/oauth_creds.json .qwen/.env
    .local/share/opencode .config/goose .local/share/goose .config/cursor .config/Cursor .cursor
    .config/github-copilot .copilot .local/share/amp .config/amp .factory .continue .augment .codeium .windsurf .kimi .vibe
    .local/share/crush .config/crush .local/share/amazon-q .local/share/kiro-cli .kiro .aider.conf.yml .openai .anthropic
    .config/openai .config/anthropic .config/io.datasette.llm .config/aichat .config/kilo .cline .roo
    .local/share/keyrings .local/share/kwalletd .local/share/com.vercel.cli .local/share/containers/podman/machine
    .local/state/tieline .pki .electrum .bitcoin .ethereum
    .mozilla .thunderbird .config/google-chrome .config/chromium .config/BraveSoftware .config/microsoft-edge .config/vivaldi
    .config/opera .config/Signal .config/Slack .config/discord snap/firefox snap/chromium
    .Xauthority .ICEauthority .bash_history .zsh_history .zhistory .histfile .local/share/fish/fish_history .python_history
    .node_repl_history .psql_history .mysql_history .sqlite_history .rediscli_history .irb_history .lesshst
    .ollama/id_ed25519 .config/wireguard .config/syncthing .local/state/syncthing .local/share/mkcert .android/adbkey .step .tsh .globus
    .chef .minisign .age .local/share/atuin .cloudflared .foundry/keystores .near-credentials .brownie
    .authinfo .authinfo.gpg .msmtprc .config/msmtp .mbsyncrc .config/isyncrc .fetchmailrc .muttrc .mutt .config/mutt .config/neomutt
    .offlineimaprc .smbcredentials .davfs2 .passwd-s3fs .mc .mcli .config/b2 .b2_account_info .config/stripe .config/ngrok .ngrok2
    .config/heroku .config/scw .config/.wrangler .config/neonctl .supabase .planetscale .config/planetscale .modal.toml .sentryclirc
    .dbt .snowflake .databricks .config/helm/registry .config/argocd .argocd .config/tea .config/pnpm .pub-cache/credentials.json
    .config/dart .hex/hex.config .local/share/gem/credentials .microsoft/usersecrets .usqlpass .config/usql .cvspass .vault_pass
    .ansible/vault_pass .vault-password .ansible_vault_pass
    .config/Code/User/globalStorage .config/VSCodium/User/globalStorage .config/weechat .weechat .irssi .purple
    .local/share/TelegramDesktop .librewolf .zen .local/share/DBeaverData .config/filezilla .config/remmina
    .local/share/remmina
    .sh_history .ash_history .ksh_history .mksh_history .viminfo .vim/viminfo .local/state/nvim/shada .local/share/nvim/shada
    .config/nushell/history.txt .config/nushell/history.sqlite3 .local/share/powershell .ipython/profile_default/history.sqlite
    .julia/logs .local/share/pry .pry_history .local/share/irb .irb-history .local/state/bash .local/state/zsh .local/state/python
    .local/state/bash_history .local/state/zsh_history .local/state/python_history .local/share/zsh .bash_sessions .zsh_sessions
    .wget-hsts .units_history .gdb_history .lldb/lldb-widehistory .config/fish/fish_history .mongosh .dbshell
    .claude/history.jsonl .claude/projects .claude/file-history .claude/paste-cache .claude/shell-snapshots .claude/todos
    .claude/sessions .claude/session-env .claude/debug .claude/backups .claude/plans .claude/statsig .claude/telemetry .gemini/tmp
    .gemini/history .qwen/tmp .qwen/history .qwen/projects .codex/log .codex/archived_sessions .codex/shell_snapshots
    .codex/history .aider.chat.history.md .aider.input.history .aider.llm.history .aider .iflow .grok .forge .pi .openhands
    .kilocode .codebuddy .rovodev .warp .local/state/warp-terminal .config/Windsurf .plandex-home .plandex-home-v2
    .config/manicode .letta .amazonq .aws/amazonq .trae .qoder .zencoder .junie .devin
    .var/app/org.mozilla.firefox .var/app/com.google.Chrome .var/app/org.chromium.Chromium .var/app/com.brave.Browser .vnc
    .config/borg .config/kdeconnect .sbt/.credentials .sbt/credentials .ivy2/.credentials .lein/credentials.clj
    .lein/credentials.clj.gpg .aliyun .doppler .clasprc.json .local/share/uv/credentials .local/share/jupyter/runtime
    .duckdb_history .mongodb .local/share/xonsh .xonsh_history.json
    .mcp-auth .circleci/cli.yml .travis/config.yml .slack/credentials.json .config/linode-cli .runpod/config.toml
    .config/earthengine/credentials .config/fabric/.env .config/shell_gpt/.sgptrc .config/mods/mods.yml .vast_api_key
    .config/vastai/vast_api_key .config/JetBrains .config/protonmail
    .google_authenticator .sui .aptos .appstoreconnect .android/debug.keystore .acme.sh .talos .jfrog .sf .sfdx .twilio-cli .expo
    .sbt/1.0/credentials.sbt .tofurc .gsutil .config/circleci .config/gitlab-runner .civo.json .vault_pass.txt .config/restic
    .config/aerc .config/himalaya .config/vdirsyncer .config/goa-1.0 .config/tigervnc .config/rustdesk .curlrc .wgetrc .httpie
    .config/httpie .config/Postman .config/Insomnia .wireguard .openvpn .config/openvpn .cert .history .tcsh_history .xonsh_history
    .Rhistory .ghc/ghci_history .lftp .config/Mattermost .config/Element .config/teams .local/share/python_keyring .local/share/lpass
    .local/share/nu
    .config/Claude .vscode-server/data/User/globalStorage .config/fish/fish_variables .config/environment.d .config/zsh/.zsh_history
    .cache/zsh/history .clickhouse-client-history .config/openstack .config/lxc .config/incus .docker/machine .cosign .conan2/credentials.json
    .config/coursier/credentials.properties .julia/servers .cassandra/credentials .edgerc .ovh.conf .newrelic .config/fastly
    .config/turso .rancher .prefect/profiles.toml .config/nix/netrc .config/cachix .vultr-cli.yaml .config/exoscale .lego";

/// Variables that stand for a folder of the home, and which: the names above that are in it are secrets there as well.
const MOVED: &[(&str, &str)] = &[
    ("XDG_CONFIG_HOME", ".config"),
    ("XDG_DATA_HOME", ".local/share"),
    ("XDG_STATE_HOME", ".local/state"),
    ("CARGO_HOME", ".cargo"),
    ("DOCKER_CONFIG", ".docker"),
    ("CLAUDE_CONFIG_DIR", ".claude"),
    ("CODEX_HOME", ".codex"),
    ("GRADLE_USER_HOME", ".gradle"),
    ("COMPOSER_HOME", ".composer"),
    ("POETRY_CONFIG_DIR", ".config/pypoetry"),
    ("ZDOTDIR", ""),
];

/// Variables that name secrets: a file, a folder, or a list of them.
const IN_VARIABLES: &str = "
    AWS_SHARED_CREDENTIALS_FILE AWS_CONFIG_FILE AWS_WEB_IDENTITY_TOKEN_FILE BOTO_CONFIG AZURE_CONFIG_DIR CLOUDSDK_CONFIG
    GOOGLE_APPLICATION_CREDENTIALS OCI_CLI_CONFIG_FILE OCI_CONFIG_FILE DATABRICKS_CONFIG_FILE SNOWFLAKE_HOME PULUMI_HOME
    KUBECONFIG MINIKUBE_HOME DOCKER_CERT_PATH REGISTRY_AUTH_FILE TF_CLI_CONFIG_FILE VAULT_CONFIG_PATH RCLONE_CONFIG
    GNUPGHOME PASSWORD_STORE_DIR SOPS_AGE_KEY_FILE SOPS_AGE_SSH_PRIVATE_KEY_FILE KRB5CCNAME KRB5_KTNAME KRB5_CLIENT_KTNAME
    NETRC NPM_CONFIG_USERCONFIG NPM_CONFIG_GLOBALCONFIG PIP_CONFIG_FILE BUNDLE_USER_CONFIG PGPASSFILE PGSERVICEFILE
    MYSQL_TEST_LOGIN_FILE GH_CONFIG_DIR GLAB_CONFIG_DIR HF_HOME HF_TOKEN_PATH KAGGLE_CONFIG_DIR CONTINUE_GLOBAL_DIR
    TIELINE_CONFIG XAUTHORITY ICEAUTHORITY HISTFILE PYTHON_HISTORY NODE_REPL_HISTORY PSQL_HISTORY MYSQL_HISTFILE
    SQLITE_HISTORY LESSHISTFILE REDISCLI_HISTFILE RESTIC_PASSWORD_FILE ANSIBLE_VAULT_PASSWORD_FILE PGSSLKEY
    ARM_CLIENT_CERTIFICATE_PATH OS_CLIENT_CONFIG_FILE";

/// Parts of the system, which are never hidden with all that is in them, whatever leads there.
const SYSTEM: &str = "/bin /etc /lib /lib32 /lib64 /nix /sbin /usr";

/// So many entries of folders are looked at for such files.
const MAX_ENTRIES: usize = 10_000;

/// So deep below them links are looked for: at each start of a command.
const STEPS_TO_KEYS: usize = 2;

/// Elsewhere.
const IN_SYSTEM: &str =
    "/etc/shadow /etc/shadow- /etc/gshadow /etc/gshadow- /etc/sudoers.d /etc/ssl/private /etc/ssh /etc/krb5.keytab
    /etc/kubernetes /etc/rancher /etc/docker/key.json";

/// Services that would do for a command what it can't do itself, where their sockets are not in [`CLOSED`].
const SERVICES: &str =
    "/var/lib/incus /var/lib/lxd /var/snap/lxd/common/lxd /var/lib/mysql /var/lib/docker /var/lib/containerd
    /var/spool/postfix /var/lib/sss/pipes /nix/var/nix/daemon-socket /tmp/.X11-unix /tmp/.ICE-unix";

/// Folders of which only what is named is seen, whatever comes later: homes of all users, and what services leave at run time,
/// their sockets above all.
const CLOSED: &str = "/home /run /var/run";

/// What is seen of them nevertheless: how names of machines are found, and programs of some systems.
const OPEN: &str = "/run/systemd/resolve/resolv.conf /run/systemd/resolve/stub-resolv.conf /run/resolvconf/resolv.conf
    /run/NetworkManager/resolv.conf /run/NetworkManager/no-stub-resolv.conf /run/current-system /run/booted-system
    /run/opengl-driver /run/opengl-driver-32 /run/wrappers";

/// Homes of people have no lower number; those of services are part of the system.
const FIRST_PERSON: u32 = 1000;

/// What a command does not see, and what it does although something around it is hidden. Without links and sorted.
#[derive(Debug, Default)]
pub(super) struct Hidden {
    /// Also names that are not there yet.
    pub(super) hide: Vec<PathBuf>,
    pub(super) show: Vec<PathBuf>,
}

fn words(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.split_whitespace()
}

/// Secrets of the user and the system, by name: they need not be there.
fn named() -> Vec<PathBuf> {
    let mut named: Vec<PathBuf> = words(IN_SYSTEM).map(PathBuf::from).collect();
    if let Some(home) = env::home_dir() {
        named.extend(words(IN_HOME).map(|path| home.join(path)));
        named.push(home.join(".config/Bitwarden CLI"));
        named.extend(vaults(&home));
    }
    for (base, stands_for) in MOVED.iter().filter_map(|(variable, stands_for)| Some((place(variable)?, stands_for))) {
        let below = words(IN_HOME).filter_map(|name| Path::new(name).strip_prefix(stands_for).ok());
        named.extend(below.map(|name| base.join(name)));
    }
    for variable in words(IN_VARIABLES) {
        let values = [env::var_os(variable), env::var_os(variable.to_ascii_lowercase())].into_iter().flatten();
        let paths = values.flat_map(|value| env::split_paths(&value).collect::<Vec<_>>());
        // Not the first part of `FILE:/tmp/ticket`.
        let paths = paths.filter(|path| path.is_absolute() || path.exists());
        named.extend(paths.filter_map(|path| std::path::absolute(path).ok()).filter(|path| !is_wide(path)));
    }
    named
}

/// Makes our own folders if they would lie below these roots: what is not there can't be hidden, and a command could make it.
pub(super) fn make_own(roots: &[Pinned]) {
    let inside = |path: &Path| roots.iter().any(|root| path.starts_with(&root.path) && path != root.path);
    let mut real = Real::default();
    for own in named().into_iter().filter(|path| path.ends_with("tieline") && !path.is_dir()) {
        // Where it can't be made, nobody else can, either.
        if real.names_of(&own).iter().any(|name| inside(name)) {
            let _ = fs::DirBuilder::new().recursive(true).mode(0o700).create(&own);
        }
    }
}

/// Whether a folder, without links, has a secret somewhere below it.
pub(crate) fn is_around_secret(folder: &Path) -> bool {
    let mut real = Real::default();
    let mut names = named().into_iter().flat_map(|path| real.names_of(&path));
    names.any(|name| name != folder && name.starts_with(folder) && name.symlink_metadata().is_ok())
}

/// Databases of password managers, where people keep them.
fn vaults(home: &Path) -> Vec<PathBuf> {
    const FOLDERS: [&str; 7] = ["", "Documents", "Desktop", "Passwords", "Nextcloud", "Dropbox", "Sync"];
    let entries = FOLDERS.iter().flat_map(|folder| fs::read_dir(home.join(folder)).into_iter().flatten().flatten());
    entries.take(MAX_ENTRIES).map(|entry| entry.path()).filter(|path| is_vault(path)).collect()
}

fn is_vault(path: &Path) -> bool {
    path.extension().is_some_and(|end| ["kdbx", "kdb"].iter().any(|known| end.eq_ignore_ascii_case(known)))
}

/// Whether too much would be hidden with a path: all of a home, parts of the system, or a device (`HISTFILE=/dev/null`).
pub(super) fn is_wide(path: &Path) -> bool {
    let home =
        || env::home_dir().into_iter().chain(words(CLOSED).map(PathBuf::from)).any(|home| home.starts_with(path));
    let device = ["/dev", "/proc", "/sys"].iter().any(|place| path.starts_with(place));
    device || path.is_dir() && (home() || path.parent().is_none() || words(SYSTEM).any(|place| path.starts_with(place)))
}

/// Where links in secrets lead to.
fn linked(secrets: &[PathBuf]) -> impl Iterator<Item = PathBuf> {
    let links =
        links(secrets.to_vec(), STEPS_TO_KEYS, false).into_iter().filter_map(|(link, _)| link.canonicalize().ok());
    links.filter(|path| !is_wide(path))
}

/// Whether a path, without links, is a secret or in one, in whatever home, for those who read files wherever they work.
pub(crate) fn is_secret(path: &Path) -> bool {
    static NAMES: LazyLock<HashSet<PathBuf>> = LazyLock::new(|| {
        let mut real = Real::default();
        let others = other_homes().into_iter().flat_map(|home| words(IN_HOME).map(move |path| home.join(path)));
        let all: Vec<PathBuf> = named().into_iter().chain(linked(&named())).chain(others).collect();
        let real: Vec<PathBuf> =
            all.iter().filter_map(|path| Some(real.of(path.parent()?)?.join(path.file_name()?))).collect();
        let below = words(IN_HOME).map(PathBuf::from);
        all.into_iter().chain(real).chain(below).map(|path| path.as_os_str().to_ascii_lowercase().into()).collect()
    });
    let path = PathBuf::from(path.as_os_str().to_ascii_lowercase());
    // Names in the homes that are where homes are have no beginning.
    let mut below = path.strip_prefix("/home").unwrap_or(Path::new("")).components();
    below.next();
    is_vault(&path) || path.ancestors().chain(below.as_path().ancestors()).any(|part| NAMES.contains(part))
}

/// The built-in list and `more`, except for what is shown, and for folders that are to be worked in.
pub(super) fn hidden(more: &[PathBuf], show: &[PathBuf], keep: &[&Path]) -> Hidden {
    let home = env::home_dir();
    let mut named = named();
    // Not what is worked in, or around it.
    let work = |path: &PathBuf| keep.iter().any(|place| place.starts_with(path));
    let linked: Vec<PathBuf> = linked(&named).filter(|path| !work(path)).collect();
    named.extend(linked.into_iter().chain(words(SERVICES).map(PathBuf::from)));
    // What is not there, or not for us, needs no hiding, and its folder no walls.
    let system = |path: &Path| words(IN_SYSTEM).chain(words(SERVICES)).any(|name| Path::new(name) == path);
    named.retain(|path| !system(path) || rustix::fs::access(path, rustix::fs::Access::READ_OK).is_ok());
    // Not the whole folder of caches, which is large, for one that is not there.
    named.extend(home.iter().map(|home| home.join(".cache/huggingface")).filter(|path| path.is_dir()));
    let own = home.and_then(|home| home.canonicalize().ok());
    named.extend(other_homes().into_iter().filter(|home| home.canonicalize().ok() != own));
    let mut closed: Vec<PathBuf> = words(CLOSED).filter_map(|path| Path::new(path).canonicalize().ok()).collect();
    closed.retain(|path| path.is_dir() && own.as_ref() != Some(path));
    let mut seen: BTreeSet<PathBuf> = own.iter().cloned().collect();
    seen.extend(programs().into_iter().filter(|path| own.as_ref().is_none_or(|own| !path.starts_with(own))));
    seen.extend(words(OPEN).chain(["/etc/resolv.conf"]).filter_map(|path| Path::new(path).canonicalize().ok()));
    let mut real = Real::default();
    let mut all: BTreeSet<PathBuf> =
        named.iter().chain(more).flat_map(|path| real.names_of(path)).chain(closed).collect();
    all.retain(|path| !show.contains(path) && !keep.contains(&&**path) && path != Path::new("/"));
    // Only what is hidden otherwise has to be shown, and nothing that is hidden itself.
    seen.retain(|path| path.ancestors().skip(1).any(|around| all.contains(around)) && !all.contains(path));
    seen.extend(show.iter().cloned());
    Hidden { hide: all.into_iter().collect(), show: seen.into_iter().collect() }
}

/// The folders on `PATH`, and what programs in a folder `bin` have beside it: a package manager may live in a home of its own.
fn programs() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).filter_map(|folder| folder.canonicalize().ok());
    let with_libraries = folders.flat_map(|folder| {
        let beside = ["lib", "lib64", "libexec", "Cellar", "opt"].map(|name| folder.with_file_name(name));
        let beside = beside.into_iter().filter(|_| folder.ends_with("bin")).collect::<Vec<_>>();
        std::iter::once(folder).chain(beside)
    });
    with_libraries.filter(|folder| folder.is_dir()).collect()
}

/// Folders without links, each asked for once: there are many names, and few folders that they are in.
#[derive(Default)]
struct Real(HashMap<PathBuf, Option<PathBuf>>);

impl Real {
    fn of(&mut self, folder: &Path) -> Option<PathBuf> {
        if let Some(known) = self.0.get(folder) {
            return known.clone();
        }
        let real = folder.canonicalize().ok();
        self.0.insert(folder.to_owned(), real.clone());
        real
    }

    /// What has to be hidden so that nobody gets at a path: where it leads to, and the first name on the way that is missing, or may
    /// come to lead elsewhere.
    fn names_of(&mut self, path: &Path) -> Vec<PathBuf> {
        let mut name = path;
        while let (Some(around), Some(last)) = (name.parent(), name.file_name()) {
            if let Some(real) = self.of(around) {
                let real = real.join(last);
                let link = name == path && fs::symlink_metadata(&real).is_ok_and(|facts| facts.is_symlink());
                let target = if link { real.canonicalize().ok() } else { None };
                return [Some(real), target].into_iter().flatten().collect();
            }
            name = around;
        }
        Vec::new()
    }
}

/// Homes that are not where homes are, the user's own by the list of users among them: `HOME` may be another.
fn other_homes() -> Vec<PathBuf> {
    let table = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let home = |line: &str| {
        let fields: Vec<&str> = line.split(':').collect();
        let (number, home) = (fields.get(2)?.parse::<u32>().ok()?, Path::new(fields.get(5)?));
        let person = number >= FIRST_PERSON && number != 65534;
        // Not the system itself, and not the folder of a service.
        let far = home.is_absolute() && home.components().count() > 2;
        let system = ["/usr", "/var", "/etc", "/dev", "/proc", "/sys", "/bin", "/sbin", "/lib", "/opt", "/tmp"];
        (person && far && !system.iter().any(|place| home.starts_with(place))).then(|| home.to_owned())
    };
    let mut homes: Vec<PathBuf> = table.lines().filter_map(home).collect();
    homes.push("/root".into());
    homes
}
