//! The smaller updates: commands, options, mode, session info, usage, notices, compaction.

use crate::macros::{open_enum, record};
use crate::{Command, ConfigOption, ContentBlock, Items, Patch};

record! {
    /// Replaces the commands.
    CommandsUpdate {
        /// All commands there are now.
        commands: Vec<Command> => "availableCommands", required_list;
    }
}

record! {
    /// Replaces the options.
    ConfigOptionsUpdate {
        /// All options there are now.
        options: Vec<ConfigOption> => "configOptions", required_list;
    }
}

record! {
    /// Another mode is on.
    ModeUpdate {
        /// Which mode.
        mode_id: String => "currentModeId", required;
    }
}

record! {
    /// Changes what is known of the session. Holds only what changed.
    upsert SessionInfoUpdate {
        /// Its title.
        title: Patch<String> => "title", lenient;
        /// When something last happened (RFC 3339).
        updated_at: Patch<String> => "updatedAt", lenient;
    }
}

record! {
    /// How full the context is and what was spent.
    UsageUpdate {
        /// Tokens in the context.
        used: u64 => "used", required;
        /// Tokens that fit.
        size: u64 => "size", required;
        /// What the session cost so far.
        cost: Patch<Cost> => "cost", lenient;
    }
}

record! {
    /// An amount of money or of another unit.
    Cost {
        /// How much.
        amount: f64 => "amount", required;
        /// An ISO 4217 code, or a unit such as credits.
        currency: String => "currency", required;
    }
}

record! {
    /// Something to show in passing.
    Notice {
        /// How bad it is; for display only.
        severity: Severity => "severity", required;
        /// One line.
        title: String => "title", wording;
        /// More of it.
        description: Option<String> => "description", lenient;
    }
}

open_enum! {
    /// How bad something is.
    Severity, default Info, open {
        /// Good to know.
        Info = "info";
        /// May need attention.
        Warning = "warning";
        /// Something failed, but the work goes on.
        Error = "error";
    }
}

record! {
    /// Creates or changes a compaction: the context is replaced by a summary.
    upsert CompactionUpdate {
        /// Which compaction.
        compaction_id: String => "compactionId", required;
        /// How far it is.
        status: CompactionStatus => "status", required;
        /// The whole summary.
        summary: Patch<Items<ContentBlock>> => "summary", lenient;
        /// What failed.
        error: Patch<String> => "error", lenient;
    }
}

open_enum! {
    /// How far a compaction is.
    CompactionStatus, default InProgress, open {
        /// Under way.
        InProgress = "in_progress";
        /// Done.
        Completed = "completed";
        /// Failed.
        Failed = "failed";
        /// Stopped.
        Cancelled = "cancelled";
    }
}

record! {
    /// Appends one block to the summary of a compaction.
    CompactionSummaryChunk {
        /// Which compaction.
        compaction_id: String => "compactionId", required;
        /// The block.
        content: ContentBlock => "content", required;
    }
}
