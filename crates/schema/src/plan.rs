//! Plans: what the agent means to do, told as a whole each time.

use crate::macros::{fields, open_enum, record};
use crate::{Decode, Dialect, Dialects, Encode, Unknown, Writer, union};
use tieline_json::{Error, Reader, Sequence};

/// The id of the only plan that version 1 has.
pub const MAIN_PLAN: &str = "main";

/// One plan. An update replaces the plan of the same id.
#[derive(Debug, Clone, PartialEq)]
pub enum Plan {
    /// A list of steps.
    Items(PlanItems),
    /// A kind we don't know, kept as it came. It still replaces the plan of its id.
    Other {
        /// Which plan it is.
        plan_id: String,
        /// The whole object.
        unknown: Unknown,
    },
}

impl Plan {
    /// The only plan of an agent that has just one.
    pub fn main(entries: Vec<PlanEntry>) -> Self {
        Self::Items(PlanItems { plan_id: MAIN_PLAN.into(), entries, ..Default::default() })
    }

    /// Which plan it is.
    pub fn id(&self) -> &str {
        match self {
            Self::Items(items) => &items.plan_id,
            Self::Other { plan_id, .. } => plan_id,
        }
    }

    /// The steps; none if the kind is unknown.
    pub fn entries(&self) -> &[PlanEntry] {
        match self {
            Self::Items(items) => &items.entries,
            Self::Other { .. } => &[],
        }
    }
}

impl Default for Plan {
    fn default() -> Self {
        Self::Items(PlanItems::default())
    }
}

impl From<PlanItems> for Plan {
    fn from(items: PlanItems) -> Self {
        Self::Items(items)
    }
}

record! {
    /// A plan that is a list of steps.
    PlanItems {
        /// Which plan it is.
        plan_id: String => "planId" / "id", required;
        /// All steps, in order.
        entries: Vec<PlanEntry> => "entries", required_list;
    }
}

record! {
    /// One step of a plan.
    PlanEntry {
        /// What is to be done.
        content: String => "content", required;
        /// How much it matters.
        priority: PlanPriority => "priority", required;
        /// How far it is.
        status: PlanStatus => "status", required;
    }
}

impl PlanEntry {
    /// A step of medium priority.
    pub fn new(content: impl Into<String>, status: PlanStatus) -> Self {
        Self { content: content.into(), priority: PlanPriority::Medium, status, ..Default::default() }
    }
}

open_enum! {
    /// How much a step matters.
    PlanPriority, default Medium {
        /// Needed for the goal.
        High = "high";
        /// Ordinary.
        Medium = "medium";
        /// Nice to have.
        Low = "low";
    }
}

open_enum! {
    /// How far a step is.
    PlanStatus, default Pending {
        /// Not begun.
        Pending = "pending";
        /// Being worked on.
        InProgress = "in_progress";
        /// Done.
        Completed = "completed";
        /// Given up. Older dialects can only call it completed.
        Cancelled = "cancelled" @ Dialects::V2, else Completed;
    }
}

record! {
    /// The update that carries a plan.
    PlanUpdate {
        /// The plan as it is now.
        plan: Plan => "plan", required;
    }
}

impl From<Plan> for PlanUpdate {
    fn from(plan: Plan) -> Self {
        Self { plan, ..Default::default() }
    }
}

impl PlanUpdate {
    /// Reads the update `plan` of version 1, which has the entries at its root.
    pub(crate) fn decode_v1(json: &mut Reader<'_>, mut fields: Sequence) -> Result<Self, Error> {
        fields!(json, fields {
            "entries" => entries, required_list;
            "_meta" => meta, lenient;
        });
        let entries = entries.ok_or_else(|| Error::missing("entries"))?;
        Ok(Self { plan: Plan::main(entries), meta, ..Default::default() })
    }

    /// Writes the update `plan` of version 1.
    pub(crate) fn encode_v1(&self, out: &mut Writer<'_>) {
        out.key("{\"sessionUpdate\":\"plan\",\"entries\":");
        out.array(self.plan.entries());
        out.key(",");
        out.field("\"_meta\":", &self.meta);
        out.close();
    }
}

impl Decode for Plan {
    fn decode(json: &mut Reader<'_>) -> Result<Self, Error> {
        let tag = union::tag(json, "type")?.ok_or_else(|| Error::missing("type"))?;
        if tag == "items" {
            return PlanItems::decode(json).map(Self::Items);
        }
        let plan_id = match union::tag(json, "planId")? {
            Some(id) => id,
            None => union::tag(json, "id")?.ok_or_else(|| Error::missing("planId"))?,
        };
        Ok(Self::Other { plan_id: plan_id.into_owned(), unknown: Unknown::keep(&tag, json)? })
    }
}

impl Encode for Plan {
    fn encode(&self, out: &mut Writer<'_>) {
        match self {
            Self::Items(items) => out.tagged("{\"type\":\"items\",", items),
            Self::Other { plan_id, unknown } => {
                unknown.encode_with(if out.dialect == Dialect::V2 { "planId" } else { "id" }, plan_id, out);
            }
        }
    }
}
