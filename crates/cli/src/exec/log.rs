//! What the libraries warn of becomes a warning of the run.

use std::fmt::{Debug, Write};
use tieline_client::live::Notes;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::Context;

/// Listens to the libraries, beside the log that the user may want.
pub fn listen(notes: Notes) -> Result<(), String> {
    let ours = Targets::new().with_target("tieline", LevelFilter::WARN);
    // Files and terminals are offered to all agents; one that speaks a version without them works on the disk.
    let ours = ours.with_target("tieline::offer", LevelFilter::OFF);
    crate::log::start(Some(Listener(notes).with_filter(ours).boxed()))
}

struct Listener(Notes);

/// The words of an event: its message, then its fields.
#[derive(Default)]
struct Words {
    message: String,
    fields: String,
}

impl Visit for Words {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, "; {name}: {value:?}"),
        };
    }
}

impl<S: Subscriber> Layer<S> for Listener {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut words = Words::default();
        event.record(&mut words);
        self.0.warn(words.message + &words.fields);
    }
}
