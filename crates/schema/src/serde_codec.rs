//! Serde for everything that has a wire form, by way of that form (feature `serde`).

/// Makes a type with a wire form one that serde knows, as current v2. Who speaks in a message is told by its update alone, so a
/// message is written as one. Behind the name are the fields that are not on the wire.
macro_rules! codec {
    ($name:ident kind) => {
        #[cfg(feature = "serde")]
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                $crate::as_dialect::v2::serialize(&$crate::Update::from(self.clone()), serializer)
            }
        }

        #[cfg(feature = "serde")]
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let update: $crate::Update = $crate::as_dialect::v2::deserialize(deserializer)?;
                let other = || serde::de::Error::custom(concat!("this update is no ", stringify!($name)));
                match update {
                    $crate::Update::$name(value) => Ok(value),
                    _ => Err(other()),
                }
            }
        }
    };
    ($name:ident $(<$item:ident>)? $($local:ident)*) => {
        #[cfg(feature = "serde")]
        impl$(<$item: $crate::Encode>)? serde::Serialize for $name$(<$item>)? {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                $crate::as_dialect::v2::serialize(self, serializer)
            }
        }

        #[cfg(feature = "serde")]
        impl<'de, $($item: $crate::Decode)?> serde::Deserialize<'de> for $name$(<$item>)? {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::as_dialect::v2::deserialize(deserializer)
            }
        }
    };
}

pub(crate) use codec;

/// For `#[serde(with = "…")]`: values in the wire form of one dialect. What is read is the union of all, wherever it is read.
///
/// ```
/// use tieline_schema::{ToolCallUpdate, as_dialect};
///
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct Row {
///     at: u64,
///     #[serde(with = "as_dialect::v1")]
///     call: ToolCallUpdate,
/// }
///
/// let row: Row = serde_json::from_str(r#"{"at":1,"call":{"toolCallId":"c","title":"Look"}}"#)?;
/// assert_eq!(serde_json::to_value(&row)?["call"]["title"], "Look");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[cfg(feature = "serde")]
pub mod as_dialect {
    macro_rules! dialects {
        ($($(#[$doc:meta])* $name:ident = $dialect:ident;)*) => {$(
            $(#[$doc])*
            pub mod $name {
                use crate::{Decode, Dialect, Encode, from_json, to_json};
                use serde::de::Error as _;
                use serde::ser::Error as _;
                use serde::{Deserialize, Deserializer, Serialize, Serializer};
                use tieline_json::{Portable, Raw};

                /// Writes a value as this dialect has it.
                pub fn serialize<T: Encode, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
                    let raw = Raw::new(to_json(value, Dialect::$dialect)).map_err(S::Error::custom)?;
                    Portable(raw).serialize(serializer)
                }

                /// Reads a value of any dialect.
                pub fn deserialize<'de, T: Decode, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
                    from_json(Portable::deserialize(deserializer)?.0.get()).map_err(D::Error::custom)
                }
            }
        )*};
    }

    dialects! {
        /// Version 1.
        v1 = V1;
        /// Seed-era version 2.
        v2_seed = V2Seed;
        /// Current version 2.
        v2 = V2;
    }
}

/// Values that are a word to people, too.
#[cfg(feature = "serde")]
macro_rules! by_name {
    ($($name:ident)*) => {$(
        impl serde::Serialize for crate::$name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for crate::$name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                <String as serde::Deserialize>::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }
    )*};
}

#[cfg(feature = "serde")]
mod others {
    #![allow(clippy::wildcard_imports, reason = "it is about all of them")]
    use crate::*;

    macro_rules! all {
        ($($name:ident$(<$item:ident>)?)*) => { $( codec!($name$(<$item>)?); )* };
    }

    // Those that no macro makes.
    all! {
        SessionId Meta Marker AuthMethod LoginEnv AgentCapabilities ClientCapabilities Command CommandInput ConfigOption ConfigValue
        SelectOptions ResourceContents Diff Change ElicitRequest ElicitResponse ElicitValue FormSchema ChoiceItems
        WriteTextFileResponse InitializeRequest InitializeResponse McpServer PermissionRequest Plan PromptResponse
        SetOptionRequest Done Replay SessionSetup StateUpdate ToolCallContent Update Patch<T> Items<T>
    }

    by_name! { Dialect Protocol MessageKind }
}
