//! `TIELINE_LOG`: what the libraries tell, on standard error or in the file that `TIELINE_LOG_FILE` names.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::str::FromStr as _;
use tieline_host::unlogged::masked;
use tieline_host::whole::open_private;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer, Registry, fmt};

const WHAT: &str = "TIELINE_LOG";
const WHERE: &str = "TIELINE_LOG_FILE";

/// Somebody who listens to the libraries.
pub type Listener = Box<dyn Layer<Registry> + Send + Sync>;

/// Starts to write the log, if it is wanted, and lets somebody else listen too.
pub fn start(other: Option<Listener>) -> Result<(), String> {
    let all: Vec<Listener> = wanted()?.into_iter().chain(other).collect();
    if all.is_empty() {
        return Ok(());
    }
    tracing_subscriber::registry().with(all).try_init().map_err(|error| error.to_string())
}

/// True if the log would be written over the screen.
pub fn on_screen() -> bool {
    std::env::var_os(WHERE).is_none_or(|place| place.is_empty())
}

/// The log that the user wants.
fn wanted() -> Result<Option<Listener>, String> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let (what, place) = (set(WHAT), set(WHERE));
    let targets = match &what {
        Some(what) => filter(&what.to_string_lossy())?,
        None if place.is_some() => Targets::new().with_default(LevelFilter::INFO),
        None => return Ok(None),
    };
    // A log that can't be written is no reason to stop, or to say so over and over.
    let lines = fmt::layer().with_ansi(false).log_internal_errors(false);
    // When a call or a turn begins, and when it ends.
    let lines = lines.with_span_events(FmtSpan::NEW | FmtSpan::CLOSE);
    Ok(Some(match place {
        Some(path) => {
            let path = Path::new(&path);
            // What people do is in it.
            let file = open_private(File::options().append(true), path);
            let file = file.map_err(|error| format!("{WHERE}: {}: {error}", path.display()))?;
            lines.with_writer(Masked(file)).with_filter(targets).boxed()
        }
        None => lines.with_writer(Masked(std::io::stderr)).with_filter(targets).boxed(),
    }))
}

/// Writes lines without what must not be in them. A line comes whole, in one write.
struct Masked<W>(W);

impl<'a, W: MakeWriter<'a>> MakeWriter<'a> for Masked<W> {
    type Writer = Masked<W::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        Masked(self.0.make_writer())
    }
}

impl<W: Write> Write for Masked<W> {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        self.0.write_all(masked(&String::from_utf8_lossy(line)).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

/// A level, or levels for parts: `debug`, `warn,tieline_rpc=trace`. A word that is no level would be taken for a part, and
/// nothing be shown.
fn filter(text: &str) -> Result<Targets, String> {
    let wrong = |part: &str| {
        format!(
            "{WHAT}: `{part}` is no level; there are error, warn, info, debug, trace and off, for everything or for parts: \
             {WHAT}=debug, {WHAT}=warn,tieline_rpc=trace"
        )
    };
    let mut targets = Targets::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (target, level) =
            part.rsplit_once('=').map_or((None, part), |(target, level)| (Some(target.trim()), level));
        let level = LevelFilter::from_str(level.trim()).map_err(|_| wrong(part))?;
        targets = match target {
            _ if part.ends_with('=') => return Err(wrong(part)),
            Some("") => return Err(wrong(part)),
            Some(target) => targets.with_target(target, level),
            None => targets.with_default(level),
        };
    }
    Ok(targets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::Level;

    #[test]
    fn filters_are_read_and_mistakes_are_named() {
        let check = |text: &str, target: &str, level, shown: bool| {
            assert_eq!(filter(text).unwrap().would_enable(target, &level), shown, "{text} {target}");
        };
        check("debug", "tieline_rpc::child", Level::DEBUG, true);
        check("debug", "tieline_rpc::child", Level::TRACE, false);
        check("warn, tieline_rpc=trace", "tieline_rpc::child", Level::TRACE, true);
        check("warn, tieline_rpc=trace", "tieline_host", Level::INFO, false);
        check("INFO,tieline_host=off", "tieline_host::store", Level::ERROR, false);
        for (text, named) in [("debgu", "`debgu`"), ("info,x=loud", "`x=loud`"), ("=info", "`=info`"), ("x=", "`x=`")] {
            let why = filter(text).unwrap_err();
            assert!(why.contains(named) && why.contains("tieline_rpc=trace"), "{why}");
        }
    }
}
