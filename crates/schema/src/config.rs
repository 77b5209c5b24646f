//! Session options: what a user can choose (mode, model, …), and the value that is chosen.

use crate::codec::read;
use crate::macros::{fields, open_enum, record};
use crate::{Decode, Dialect, Encode, Meta, Record, Unknown, Writer, union};
use tieline_json::{Error, Kind, Names, Raw, Reader, write_str};

/// One option of a session, with its present value.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfigOption {
    /// Names the option in `session/set_config_option`.
    pub config_id: String,
    /// The label.
    pub name: String,
    /// What it does.
    pub description: Option<String>,
    /// What it is about; for display only.
    pub category: Option<ConfigCategory>,
    /// How it is chosen, and the present value.
    pub kind: ConfigKind,
    /// Extensions (`_meta`).
    pub meta: Option<Meta>,
}

/// How an option is chosen.
#[derive(Debug, Clone, PartialEq)]
pub enum ConfigKind {
    /// One value of a list.
    Select(Select),
    /// On or off.
    Boolean(bool),
    /// A kind we don't know: the whole option, kept as it came. Version 1 has no form for it and is not told.
    Other(Unknown),
}

/// One value of a list.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Select {
    /// The value chosen now.
    pub current_value: String,
    /// What can be chosen.
    pub options: SelectOptions,
}

/// What can be chosen: values, or groups of them.
#[derive(Debug, Clone, PartialEq)]
pub enum SelectOptions {
    /// A plain list.
    Flat(Vec<SelectOption>),
    /// A list with headings.
    Grouped(Vec<SelectGroup>),
}

record! {
    /// A value that can be chosen.
    SelectOption {
        /// The value itself.
        value: String => "value", required;
        /// The label.
        name: String => "name", required;
        /// What it means.
        description: Option<String> => "description", lenient;
    }
}

record! {
    /// Values under a heading.
    SelectGroup {
        /// Names the group.
        group_id: String => "groupId" / "group", required;
        /// The heading.
        name: String => "name", required;
        /// The values.
        options: Vec<SelectOption> => "options", required_list;
    }
}

open_enum! {
    /// What an option is about. A hint for display: nothing may depend on it.
    ConfigCategory, default Mode, open {
        /// How the agent works.
        Mode = "mode";
        /// Which model it uses.
        Model = "model";
        /// A setting of the model.
        ModelConfig = "model_config";
        /// How long it thinks.
        ThoughtLevel = "thought_level";
    }
}

impl ConfigOption {
    /// A list to choose from: values with their labels, or what [`SelectOptions`] can say beyond that.
    ///
    /// ```
    /// use tieline_schema::{ConfigCategory, ConfigOption};
    ///
    /// // What version 1 calls modes.
    /// let mode = ConfigOption::select("mode", "Mode", "ask", [("ask", "Ask first"), ("free", "Write freely")])
    ///     .category(ConfigCategory::Mode);
    /// assert!(mode.is_mode());
    /// ```
    pub fn select(
        id: impl Into<String>,
        name: impl Into<String>,
        now: impl Into<String>,
        of: impl Into<SelectOptions>,
    ) -> Self {
        Self::new(id, name, ConfigKind::Select(Select { current_value: now.into(), options: of.into() }))
    }

    /// Says what it is about.
    #[must_use]
    pub fn category(mut self, category: ConfigCategory) -> Self {
        self.category = Some(category);
        self
    }

    /// A switch.
    pub fn boolean(id: impl Into<String>, name: impl Into<String>, on: bool) -> Self {
        Self::new(id, name, ConfigKind::Boolean(on))
    }

    fn new(config_id: impl Into<String>, name: impl Into<String>, kind: ConfigKind) -> Self {
        Self { config_id: config_id.into(), name: name.into(), description: None, category: None, kind, meta: None }
    }

    /// The present value, unless the kind is unknown.
    pub fn value(&self) -> Option<ConfigValue> {
        match &self.kind {
            ConfigKind::Select(select) => Some(ConfigValue::Id(select.current_value.clone())),
            ConfigKind::Boolean(on) => Some(ConfigValue::Bool(*on)),
            ConfigKind::Other(_) => None,
        }
    }

    /// True if this is its value now.
    pub fn has_value(&self, value: &ConfigValue) -> bool {
        match (&self.kind, value) {
            (ConfigKind::Select(select), ConfigValue::Id(id)) => select.current_value == *id,
            (ConfigKind::Boolean(on), ConfigValue::Bool(value)) => on == value,
            _ => false,
        }
    }

    /// Gives it another value; false, and nothing changes, if it can't have this one.
    pub fn set(&mut self, value: &ConfigValue) -> bool {
        match (&mut self.kind, value) {
            (ConfigKind::Select(select), ConfigValue::Id(value)) => {
                let known = select.options.iter().any(|choice| choice.value == *value);
                if known {
                    select.current_value.clone_from(value);
                }
                known
            }
            (ConfigKind::Boolean(on), ConfigValue::Bool(value)) => {
                *on = *value;
                true
            }
            _ => false,
        }
    }

    /// True if this is a list of modes.
    pub fn is_mode(&self) -> bool {
        self.category == Some(ConfigCategory::Mode) && matches!(self.kind, ConfigKind::Select(_))
    }

    /// Turns a switch into a list of `true` and `false`, for clients that know no switches.
    #[must_use]
    pub fn without_boolean(mut self) -> Self {
        if let ConfigKind::Boolean(on) = self.kind {
            self.kind = ConfigKind::Select(on_off(on));
        }
        self
    }
}

fn on_off(on: bool) -> Select {
    Select { current_value: on.to_string(), options: [("true", "On"), ("false", "Off")].into() }
}

impl From<Vec<SelectOption>> for SelectOptions {
    fn from(values: Vec<SelectOption>) -> Self {
        Self::Flat(values)
    }
}

/// Values and their labels.
impl<const N: usize> From<[(&str, &str); N]> for SelectOptions {
    fn from(values: [(&str, &str); N]) -> Self {
        let value = |(value, name): (&str, &str)| SelectOption {
            value: value.into(),
            name: name.into(),
            ..SelectOption::default()
        };
        Self::Flat(values.into_iter().map(value).collect())
    }
}

impl SelectOptions {
    /// All values, without the headings.
    pub fn iter(&self) -> impl Iterator<Item = &SelectOption> {
        let (flat, groups): (&[SelectOption], &[SelectGroup]) = match self {
            Self::Flat(values) => (values, &[]),
            Self::Grouped(groups) => (&[], groups),
        };
        flat.iter().chain(groups.iter().flat_map(|group| &group.options))
    }
}

impl Default for SelectOptions {
    fn default() -> Self {
        Self::Flat(Vec::new())
    }
}

impl Decode for ConfigOption {
    fn decode(json: &mut Reader<'_>) -> Result<Self, Error> {
        let tag = union::tag(json, "type")?.ok_or_else(|| Error::missing("type"))?;
        let (select, boolean) = (tag == "select", tag == "boolean");
        let start = json.mark();
        let (mut id, mut name, mut value, mut on, mut options) = (None, None, None, None, None);
        let (mut description, mut category, mut meta) = (None, None, None);
        let mut object = json.object()?;
        while let Some(key) = object.key(json)? {
            match &*key {
                "configId" => {
                    json.renamed("configId", Names::New);
                    id = Some(read::strict(json, "configId")?);
                }
                "id" if id.is_none() => {
                    json.renamed("id", Names::Old);
                    id = Some(read::strict(json, "id")?);
                }
                "name" => name = Some(read::strict(json, "name")?),
                "description" => description = read::lenient(json, "description")?,
                "category" => category = read::lenient(json, "category")?,
                "currentValue" if select => value = Some(read::strict(json, "currentValue")?),
                "currentValue" if boolean => on = Some(read::strict(json, "currentValue")?),
                "options" if select => options = Some(read::strict(json, "options")?),
                "_meta" => meta = read::lenient(json, "_meta")?,
                _ => json.skip()?,
            }
        }
        let kind = if select {
            ConfigKind::Select(Select {
                current_value: value.ok_or_else(|| Error::missing("currentValue"))?,
                options: options.ok_or_else(|| Error::missing("options"))?,
            })
        } else if boolean {
            ConfigKind::Boolean(on.ok_or_else(|| Error::missing("currentValue"))?)
        } else {
            json.rewind(start);
            ConfigKind::Other(Unknown::keep(&tag, json)?)
        };
        let config_id = id.ok_or_else(|| Error::missing("configId"))?;
        Ok(Self { config_id, name: name.ok_or_else(|| Error::missing("name"))?, description, category, kind, meta })
    }
}

impl Encode for ConfigOption {
    fn encode(&self, out: &mut Writer<'_>) {
        if let ConfigKind::Other(unknown) = &self.kind {
            let key = if out.dialect == Dialect::V2 { "configId" } else { "id" };
            return unknown.encode_with(key, &self.config_id, out);
        }
        out.open();
        out.field(if out.dialect == Dialect::V2 { "\"configId\":" } else { "\"id\":" }, &self.config_id);
        out.field("\"name\":", &self.name);
        out.field("\"description\":", &self.description);
        out.field("\"category\":", &self.category);
        match &self.kind {
            ConfigKind::Select(select) => write_select(select, out),
            // Seed-era v2 has no switch.
            ConfigKind::Boolean(on) if out.dialect == Dialect::V2Seed => write_select(&on_off(*on), out),
            ConfigKind::Boolean(on) => {
                out.key("\"type\":\"boolean\",");
                out.field("\"currentValue\":", on);
            }
            ConfigKind::Other(_) => {}
        }
        out.field("\"_meta\":", &self.meta);
        out.close();
    }

    fn encode_item(&self, out: &mut Writer<'_>) {
        if !(out.dialect == Dialect::V1 && matches!(self.kind, ConfigKind::Other(_))) {
            self.encode(out);
            out.out.push(b',');
        }
    }
}

fn write_select(select: &Select, out: &mut Writer<'_>) {
    out.key("\"type\":\"select\",");
    out.field("\"currentValue\":", &select.current_value);
    out.field("\"options\":", &select.options);
}

impl Decode for SelectOptions {
    fn decode(json: &mut Reader<'_>) -> Result<Self, Error> {
        let mark = json.mark();
        let mut array = json.array()?;
        let grouped = array.item(json)? && union::has_key(json, "options")?;
        json.rewind(mark);
        if grouped { Vec::decode(json).map(Self::Grouped) } else { Vec::decode(json).map(Self::Flat) }
    }
}

impl Encode for SelectOptions {
    fn encode(&self, out: &mut Writer<'_>) {
        match self {
            Self::Flat(values) => values.encode(out),
            Self::Grouped(groups) => groups.encode(out),
        }
    }
}

/// A value for an option. On the wire it is a part of an object: the keys `type` and `value`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigValue {
    /// One of the values of a list.
    Id(String),
    /// On or off.
    Bool(bool),
    /// A kind we don't know.
    Other {
        /// Its `type`.
        tag: String,
        /// Its `value`.
        value: Raw,
    },
}

impl ConfigValue {
    /// Makes a value of the two keys. Without `type` the JSON type of `value` decides.
    pub fn from_parts(tag: Option<&str>, value: Raw) -> Result<Self, Error> {
        let mut json = Reader::new(value.get());
        let kind = json.peek()?;
        let read = match (tag, kind) {
            (None | Some("id"), Kind::String) => json.string().map(|text| Self::Id(text.into_owned())),
            (None | Some("boolean"), Kind::Bool) => json.bool().map(Self::Bool),
            (None, _) => Err(Error::data("expected a string, true or false")),
            (Some("id"), _) => Err(Error::data("expected a string")),
            (Some("boolean"), _) => Err(Error::data("expected true or false")),
            (Some(tag), _) => return Ok(Self::Other { tag: tag.to_owned(), value }),
        };
        read.map_err(|error| error.inside("value"))
    }

    /// Reads a value of unknown kind as the older dialects do: there any string is an id.
    #[must_use]
    pub fn settle(self, dialect: Dialect) -> Self {
        match self {
            Self::Other { value, .. } if dialect != Dialect::V2 && value.get().starts_with('"') => {
                Self::from_parts(None, value).unwrap_or(Self::Bool(false))
            }
            value => value,
        }
    }

    /// On or off; also from the ids `true` and `false`, which stand for a switch where there are none.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(on) => Some(*on),
            Self::Id(id) => id.parse().ok(),
            Self::Other { .. } => None,
        }
    }
}

impl Default for ConfigValue {
    fn default() -> Self {
        Self::Id(String::new())
    }
}

impl From<&str> for ConfigValue {
    fn from(id: &str) -> Self {
        Self::Id(id.to_owned())
    }
}

impl From<bool> for ConfigValue {
    fn from(on: bool) -> Self {
        Self::Bool(on)
    }
}

impl Record for ConfigValue {
    fn encode_fields(&self, out: &mut Writer<'_>) {
        let tag = match self {
            Self::Id(_) => "id",
            Self::Bool(_) => "boolean",
            Self::Other { tag, .. } => tag,
        };
        // Seed-era v2 has no types, version 1 has one.
        if out.dialect == Dialect::V2 || (out.dialect == Dialect::V1 && tag != "id") {
            out.field("\"type\":", tag);
        }
        out.key("\"value\":");
        match self {
            Self::Id(id) => write_str(out.out, id),
            Self::Bool(on) if out.dialect == Dialect::V2Seed => write_str(out.out, if *on { "true" } else { "false" }),
            Self::Bool(on) => on.encode(out),
            Self::Other { value, .. } => value.encode(out),
        }
        out.key(",");
    }
}

impl Encode for ConfigValue {
    fn encode(&self, out: &mut Writer<'_>) {
        out.object(self);
    }
}

impl Decode for ConfigValue {
    fn decode(json: &mut Reader<'_>) -> Result<Self, Error> {
        fields!(json {
            "type" => tag, strict;
            "value" => value, keep;
        });
        let tag: Option<String> = tag.flatten();
        Self::from_parts(tag.as_deref(), value.ok_or_else(|| Error::missing("value"))?)
    }
}
