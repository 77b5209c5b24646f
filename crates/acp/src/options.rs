//! Changing the value of a session option, checked: the same on both sides.

use tieline_schema::{ConfigKind, ConfigOption, ConfigValue};

/// Changes the value of an option; false if there is no such option or value.
pub(crate) fn set_value(options: &mut [ConfigOption], id: &str, value: &ConfigValue) -> bool {
    let Some(option) = options.iter_mut().find(|option| option.config_id == id) else { return false };
    match (&mut option.kind, value) {
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
        // A client of version 1 that was shown a list instead.
        (ConfigKind::Boolean(on), ConfigValue::Id(value)) => match value.parse() {
            Ok(value) => {
                *on = value;
                true
            }
            Err(_) => false,
        },
        _ => false,
    }
}
