//! Modes of version 1, and how they stand for the mode option of version 2 and back.

use crate::macros::record;
use crate::{ConfigCategory, ConfigKind, ConfigOption, Encode, Select, SelectOption, SelectOptions, SessionId, Writer};

record! {
    /// The modes of a session.
    SessionModes {
        /// The mode it is in.
        current_mode_id: String => "currentModeId", required;
        /// The modes it can be in.
        available_modes: Vec<SessionMode> => "availableModes", required_list;
    }
}

record! {
    /// One mode.
    SessionMode {
        /// Names the mode.
        id: String => "id", required;
        /// The label.
        name: String => "name", required;
        /// What it means.
        description: Option<String> => "description", lenient;
    }
}

record! {
    /// Changes the mode (`session/set_mode`, version 1 only).
    SetModeRequest {
        /// Which session.
        session_id: SessionId => "sessionId", required;
        /// One of the modes the agent offered.
        mode_id: String => "modeId", required;
    }
}

/// The option that stands for modes where an agent has no such option.
pub const MODE_OPTION_ID: &str = "mode";

/// The option that says the mode: the first list of the category `mode`.
pub fn mode_option(options: &[ConfigOption]) -> Option<&ConfigOption> {
    options.iter().find(|option| option.is_mode())
}

impl SessionModes {
    /// The modes that a mode option offers. `None` if it is not a list.
    pub fn from_option(option: &ConfigOption) -> Option<Self> {
        let ConfigKind::Select(select) = &option.kind else { return None };
        let mode = |value: &SelectOption| SessionMode {
            id: value.value.clone(),
            name: value.name.clone(),
            description: value.description.clone(),
            meta: value.meta.clone(),
            ..Default::default()
        };
        let available_modes = select.options.iter().map(mode).collect();
        Some(Self { current_mode_id: select.current_value.clone(), available_modes, ..Default::default() })
    }

    /// An option that offers these modes.
    pub fn to_option(&self) -> ConfigOption {
        let value = |mode: &SessionMode| SelectOption {
            value: mode.id.clone(),
            name: mode.name.clone(),
            description: mode.description.clone(),
            meta: mode.meta.clone(),
            ..Default::default()
        };
        let values = SelectOptions::Flat(self.available_modes.iter().map(value).collect());
        let mut option = ConfigOption::select(MODE_OPTION_ID, "Mode", self.current_mode_id.clone(), values);
        option.category = Some(ConfigCategory::Mode);
        option
    }
}

/// What a mode option offers, written as version 1 says it, without a copy.
pub(crate) struct AsModes<'o>(pub(crate) &'o Select);

impl Encode for AsModes<'_> {
    fn encode(&self, out: &mut Writer<'_>) {
        out.open();
        out.field("\"currentModeId\":", &self.0.current_value);
        out.key("\"availableModes\":");
        out.array(self.0.options.iter().map(AsMode));
        out.key(",");
        out.close();
    }
}

struct AsMode<'o>(&'o SelectOption);

impl Encode for AsMode<'_> {
    fn encode(&self, out: &mut Writer<'_>) {
        out.open();
        out.field("\"id\":", &self.0.value);
        out.field("\"name\":", &self.0.name);
        out.field("\"description\":", &self.0.description);
        out.field("\"_meta\":", &self.0.meta);
        out.close();
    }
}
