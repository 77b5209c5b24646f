//! Changing the value of a session option, checked: the same on both sides.

use tieline_schema::{ConfigKind, ConfigOption, ConfigValue};

/// The value as the option takes it: one that is on or off may be shown as a list in version 1, and the other way round.
pub(crate) fn fitted(options: &[ConfigOption], id: &str, value: ConfigValue) -> ConfigValue {
    let kind = options.iter().find(|option| option.config_id == id).map(|option| &option.kind);
    match (kind, value) {
        (Some(ConfigKind::Select(_)), ConfigValue::Bool(on)) => ConfigValue::Id(on.to_string()),
        (Some(ConfigKind::Boolean(_)), ConfigValue::Id(text)) => {
            text.parse().map_or(ConfigValue::Id(text), ConfigValue::Bool)
        }
        (_, value) => value,
    }
}

/// Changes the value of an option; false if there is no such option or value.
pub(crate) fn set_value(options: &mut [ConfigOption], id: &str, value: &ConfigValue) -> bool {
    options.iter_mut().find(|option| option.config_id == id).is_some_and(|option| option.set(value))
}
