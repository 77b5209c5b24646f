//! A change of files that nobody may look at yet: the rules come first, so that no error tells about what they hide.

use super::{Output, Prepared, ToolContext};
use tieline_host::roots::Place;
use tieline_host::rules::Action;

/// A call of which only the names of its files are known.
pub struct Blind(Prepared);

/// `None` if all files may be looked at right away. Each comes with whether it is to be deleted.
pub fn look_first(title: String, ctx: &ToolContext, files: &[(Place, bool)]) -> Option<Blind> {
    let deed = |place: &Place, delete: bool| {
        if delete { Action::Delete(place.location()) } else { Action::Write(place.location()) }
    };
    if files.iter().all(|(place, delete)| ctx.permissions.lets_look(place, &deed(place, *delete))) {
        return None;
    }
    let mut prepared = Prepared::new(title, |_| async { Output::default() });
    for (place, delete) in files {
        prepared = prepared.at(place, 0, deed(place, *delete));
        // Whether it works tells what is in a file.
        prepared.actions.push(Action::Read(place.location()));
    }
    Some(Blind(prepared))
}

impl Blind {
    /// Looks, and does what there is to do, once that is allowed. The diff is shown afterwards.
    pub fn then<F>(self, prepare: impl FnOnce() -> F + Send + 'static) -> Prepared
    where
        F: Future<Output = Result<Prepared, String>> + Send + 'static,
    {
        let work = move |call| async move {
            let prepared = match prepare().await {
                Ok(prepared) => prepared,
                Err(why) => return Output::error(why),
            };
            let mut output = (prepared.work)(call).await;
            if !output.failed {
                output.shown.get_or_insert(prepared.content);
            }
            output
        };
        Prepared { work: Box::new(move |call| Box::pin(work(call))), ..self.0 }
    }
}
