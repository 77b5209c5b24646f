//! The links that lead out of a workspace, or seem to: made alike for the library and for the agent.

use std::os::unix::fs::symlink;
use std::path::Path;

/// Makes them in `root`, beside which are `outside` with `secret` in it, a folder whose name only begins like that of the
/// root, with `-evil` behind it, and `extra`, which is a root too. `open` is a descriptor of a file outside, in this process.
pub fn make(root: &Path, open: i32) {
    let top = root.parent().unwrap();
    let name = root.file_name().unwrap().to_str().unwrap();
    let at = |path: &str| top.join(path).to_str().unwrap().to_owned();
    for (link, target) in [
        ("abs-file", at("outside/secret")),
        ("abs-dir", at("outside")),
        ("rel-file", "../outside/secret".into()),
        ("rel-dir", "../outside".into()),
        ("messy", "sub/./deep/../../..//outside/./secret".into()),
        ("chain1", "chain2".into()),
        ("chain2", "sub/chain3".into()),
        ("sub/chain3", "../../outside/secret".into()),
        ("hop1", "hop2".into()),
        ("hop2", "rel-dir".into()),
        ("sub/deep/up", "../../../outside".into()),
        ("up", "..".into()),
        ("sub/top", "../..".into()),
        ("slash", "/".into()),
        ("dangling", "../outside/new".into()),
        ("dangling-abs", at("outside/new")),
        ("dangling-dir", "../outside/newdir".into()),
        ("dangling-chain", "sub/dangling2".into()),
        ("sub/dangling2", "../../outside/new".into()),
        ("prefix", at(&format!("{name}-evil/secret"))),
        ("proc-root", "/proc/self/root".into()),
        ("proc-cwd", "/proc/self/cwd".into()),
        ("proc-fd", format!("/proc/self/fd/{open}")),
        ("proc-pid-fd", format!("/proc/{}/fd/{open}", std::process::id())),
        ("dev-fd", format!("/dev/fd/{open}")),
        ("self", "self".into()),
        ("loop1", "loop2".into()),
        ("loop2", "loop1".into()),
        ("inlink", "sub/deep".into()),
        ("roundabout", at(&format!("{name}/../outside/secret"))),
        ("through-extra", at("extra/way-out")),
    ] {
        symlink(target, root.join(link)).unwrap();
    }
    symlink("../outside/secret", top.join("extra/way-out")).unwrap();
    for number in 0..60 {
        symlink(format!("many{}", number + 1), root.join(format!("many{number}"))).unwrap();
    }
}
