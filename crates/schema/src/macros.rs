//! The three shapes that nearly all of ACP is made of: a record, an open string enum, a tagged union.

/// An object. Each field has a wire key and a word that says how it is read:
///
/// * `required`: must be there and well-formed;
/// * `strict`: may be absent or null, but not malformed;
/// * `lenient`: malformed counts as absent;
/// * `list`: a list whose malformed items are dropped, absent or null counts as empty, always written;
/// * `rare_list`: the same, not written when empty;
/// * `whole`: a list in which a malformed item fails the message, absent or null counts as empty, always written;
/// * `rare_whole`: the same, not written when empty;
/// * `given`: the same in an `Option`, where `None` is an absent key (null is empty); v1 and seed-era v2 always write it;
/// * `required_list`: the key must be there; anything but an array counts as empty;
/// * `positive`: a required `u16` that is not 0;
/// * `wording`: a required string that should not be empty.
///
/// `"new" / "old"` is one field with two names: the first in current v2, the second in v1 and seed-era v2; both are read.
/// A trailing set (`, Dialects::V2`) says where the field is written; it is read everywhere.
/// Every record also has `_meta`: with `meta: Option<Meta>`, or with the three states after the word `upsert`.
/// Every record may grow: it has a hidden field, so that others write `..T::default()` in literals and `..` in patterns, which
/// `#[non_exhaustive]` would take from them.
/// `local { .. }` behind the fields adds fields that are not on the wire; they are read as their default. `others NAME but "TAG"` adds one
/// with the names of all that came beside the fields and the tag.
macro_rules! record {
    ($(#[$doc:meta])* upsert $name:ident { $($fields:tt)* } $(local { $($local:tt)* })?) => {
        $crate::macros::record!(@parse [$(#[$doc])*] $name [$crate::Patch<$crate::Meta>] [$($($local)*)?] [] $($fields)*);
    };
    ($(#[$doc:meta])* $name:ident { $($fields:tt)* } $(local { $($local:tt)* })? $(others $others:ident but $tag:literal)?) => {
        $crate::macros::record!(@parse [$(#[$doc])*] $name [Option<$crate::Meta>] [$($($local)*)?] [$($others but $tag)?] $($fields)*);
    };
    (@parse [$(#[$doc:meta])*] $name:ident [$meta:ty] [$( $(#[$ldoc:meta])* $local:ident : $lty:ty; )*]
        [$( $others:ident but $tag:literal )?]
        $( $(#[$fdoc:meta])* $field:ident : $ty:ty => $key:literal $(/ $old:literal)?, $mode:ident $(, $where:expr)? ; )*
    ) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Default)]
        pub struct $name {
            $( $(#[$fdoc])* pub $field: $ty, )*
            /// Extensions (`_meta`).
            pub meta: $meta,
            $( $(#[$ldoc])* pub $local: $lty, )*
            $( /// The names of fields that came with it and are not known here.
            pub $others: Vec<String>, )?
            /// Not to be named: there may be more fields in the next version.
            #[doc(hidden)]
            pub more: $crate::More,
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name))
                    $( .field(stringify!($field), &self.$field) )*
                    .field("meta", &self.meta)
                    $( .field(stringify!($local), &self.$local) )*
                    $( .field(stringify!($others), &self.$others) )?
                    .finish()
            }
        }

        impl $crate::Decode for $name {
            fn decode(json: &mut tieline_json::Reader<'_>) -> Result<Self, tieline_json::Error> {
                let fields = json.object()?;
                <Self as $crate::DecodeFields>::decode_fields(json, fields)
            }
        }

        impl $crate::DecodeFields for $name {
            fn decode_fields(
                json: &mut tieline_json::Reader<'_>,
                mut fields: tieline_json::Sequence,
            ) -> Result<Self, tieline_json::Error> {
                $( let mut $field: Option<$ty> = None; )*
                let mut meta: $meta = Default::default();
                $( let mut $others: Vec<String> = Vec::new(); )?
                while let Some(key) = fields.key(json)? {
                    match &*key {
                        $(
                            $key => {
                                $( let _ = $old; json.renamed($key, tieline_json::Names::New); )?
                                $field = Some($crate::macros::record!(@read $mode json $key));
                            }
                            $( $old if $field.is_none() => {
                                json.renamed($old, tieline_json::Names::Old);
                                $field = Some($crate::macros::record!(@read $mode json $old));
                            } )?
                        )*
                        "_meta" => meta = $crate::codec::read::lenient(json, "_meta")?,
                        _ => {
                            $( if &*key != $tag && json.peek()? != tieline_json::Kind::Null {
                                $others.push(key.clone().into_owned());
                            } )?
                            json.pass(&key)?;
                        }
                    }
                }
                Ok(Self { $( $field: $crate::macros::record!(@take $mode $field $key), )* meta, $($local: Default::default(),)* $($others,)? more: $crate::More::default() })
            }
        }

        impl $crate::Record for $name {
            fn encode_fields(&self, out: &mut $crate::Writer<'_>) {
                $( $crate::macros::record!(@write out self $field $mode $key $(/ $old)? $(, $where)?); )*
                out.field("\"_meta\":", &self.meta);
            }
        }

        impl $crate::Encode for $name {
            fn encode(&self, out: &mut $crate::Writer<'_>) {
                out.object(self);
            }
        }

        $crate::serde_codec::codec!($name $($local)*);
    };
    (@read required $json:ident $key:literal) => { $crate::codec::read::strict($json, $key)? };
    (@read strict $json:ident $key:literal) => { $crate::codec::read::strict($json, $key)? };
    (@read lenient $json:ident $key:literal) => { $crate::codec::read::lenient($json, $key)? };
    (@read list $json:ident $key:literal) => { $crate::codec::read::list($json, $key)? };
    (@read rare_list $json:ident $key:literal) => { $crate::codec::read::list($json, $key)? };
    (@read whole $json:ident $key:literal) => { $crate::codec::read::whole($json, $key)? };
    (@read rare_whole $json:ident $key:literal) => { $crate::codec::read::whole($json, $key)? };
    (@read given $json:ident $key:literal) => { Some($crate::codec::read::whole($json, $key)?) };
    (@read required_list $json:ident $key:literal) => { $crate::codec::read::required_list($json, $key)? };
    (@read wording $json:ident $key:literal) => { $crate::codec::read::wording($json, $key)? };
    (@take wording $field:ident $key:literal) => { $field.ok_or_else(|| tieline_json::Error::missing($key))? };
    (@read positive $json:ident $key:literal) => {
        $crate::codec::read::strict::<std::num::NonZeroU16>($json, $key)?.get()
    };
    (@take positive $field:ident $key:literal) => { $field.ok_or_else(|| tieline_json::Error::missing($key))? };
    (@take required_list $field:ident $key:literal) => { $field.ok_or_else(|| tieline_json::Error::missing($key))? };
    (@take required $field:ident $key:literal) => { $field.ok_or_else(|| tieline_json::Error::missing($key))? };
    (@take $mode:ident $field:ident $key:literal) => { $field.unwrap_or_default() };
    (@write $out:ident $self:ident $field:ident $mode:ident $key:literal $(/ $old:literal)?, $where:expr) => {
        if $out.speaks($where) {
            $crate::macros::record!(@write $out $self $field $mode $key $(/ $old)?);
        }
    };
    (@write $out:ident $self:ident $field:ident rare_list $key:literal $(/ $old:literal)?) => {
        if !$self.$field.is_empty() {
            $crate::macros::record!(@write $out $self $field list $key $(/ $old)?);
        }
    };
    (@write $out:ident $self:ident $field:ident rare_whole $key:literal $(/ $old:literal)?) => {
        if !$self.$field.is_empty() {
            $crate::macros::record!(@write $out $self $field whole $key $(/ $old)?);
        }
    };
    (@write $out:ident $self:ident $field:ident given $key:literal) => {
        match &$self.$field {
            Some(list) => $out.field(concat!("\"", $key, "\":"), list),
            None if $out.speaks($crate::Dialects::OLD) => $out.out.extend_from_slice(concat!("\"", $key, "\":[],").as_bytes()),
            None => {}
        }
    };
    (@write $out:ident $self:ident $field:ident $mode:ident $key:literal) => {
        $out.field(concat!("\"", $key, "\":"), &$self.$field);
    };
    (@write $out:ident $self:ident $field:ident $mode:ident $key:literal / $old:literal) => {
        if $out.dialect == $crate::Dialect::V2 {
            $out.field(concat!("\"", $key, "\":"), &$self.$field);
        } else {
            $out.field(concat!("\"", $old, "\":"), &$self.$field);
        }
    };
}

/// A string out of a known set, or any other string, kept.
///
/// Most version 1 enums are closed on the wire: there an unknown value is written as the default, or as the variant
/// behind `unknown`. After the word `open` it is written as it is, after `null` as null.
/// `Variant = "wire" @ Dialects::V2, else Other` limits a value to some dialects and says what stands for it elsewhere.
macro_rules! open_enum {
    (@closed $self:ident $out:ident $default:ident) => { Self::$default.as_str() };
    (@closed $self:ident $out:ident $default:ident open) => { $self.as_str() };
    (@closed $self:ident $out:ident $default:ident null) => {{
        $out.key("null");
        return;
    }};
    (@closed $self:ident $out:ident $default:ident unknown $closed:ident) => { Self::$closed.as_str() };
    (@is_open open) => { true };
    (@is_open $($how:ident)?) => { false };
    ($(#[$doc:meta])* $name:ident, default $default:ident $(, $how:ident $($closed:ident)?)? {
        $( $(#[$vdoc:meta])* $variant:ident = $wire:literal $(@ $where:expr, else $instead:ident)?; )*
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        pub enum $name {
            $( $(#[$vdoc])* $variant, )*
            /// A value of an implementation (starts with `_`) or of a future version, kept.
            Other(Box<str>),
        }

        impl $name {
            /// The known values, as on the wire.
            pub const KNOWN: &'static [&'static str] = &[$($wire),*];

            /// The value as on the wire.
            pub fn as_str(&self) -> &str {
                match self {
                    $( Self::$variant => $wire, )*
                    Self::Other(text) => text,
                }
            }

            /// Whether version 1, whose lists are mostly closed, has this word.
            fn is_of_v1(&self) -> bool {
                match self {
                    $($( Self::$variant => ($where).has($crate::Dialect::V1), )?)*
                    Self::Other(_) => $crate::macros::open_enum!(@is_open $($how)?),
                    _ => true,
                }
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::$default
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                match text {
                    $( $wire => Self::$variant, )*
                    other => Self::Other(other.into()),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl $crate::Decode for $name {
            fn decode(json: &mut tieline_json::Reader<'_>) -> Result<Self, tieline_json::Error> {
                let word = json.string().map(|text| Self::from(&*text))?;
                if !word.is_of_v1() {
                    let known = Self::KNOWN.iter().copied().filter(|word| Self::from(*word).is_of_v1());
                    json.stray_word(word.as_str(), known);
                }
                Ok(word)
            }
        }

        impl $crate::Encode for $name {
            fn encode(&self, out: &mut $crate::Writer<'_>) {
                let text = match self {
                    $($( Self::$variant if !out.speaks($where) => Self::$instead.as_str(), )?)*
                    Self::Other(_) if out.dialect == $crate::Dialect::V1 => {
                        $crate::macros::open_enum!(@closed self out $default $($how $($closed)?)?)
                    }
                    known => known.as_str(),
                };
                tieline_json::write_str(out.out, text);
            }
        }

        $crate::serde_codec::codec!($name);
    };
}

/// An object whose kind is told by one key. Unknown kinds are kept byte for byte; `older "…"` is what the older dialects are told
/// instead of one. After the word `closed` version 1 has no others.
macro_rules! tagged {
    (@is_closed closed) => { true };
    (@is_closed) => { false };
    ($(#[$doc:meta])* $name:ident by $tag:literal $(, older $instead:literal)? $($how:ident)? {
        $( $(#[$vdoc:meta])* $variant:ident($inner:ty) = $wire:literal $(| $alias:literal)*; )*
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq)]
        pub enum $name {
            $( $(#[$vdoc])* $variant($inner), )*
            /// A kind we don't know, kept as it came.
            Other($crate::Unknown),
        }

        $( impl From<$inner> for $name {
            fn from(value: $inner) -> Self {
                Self::$variant(value)
            }
        } )*

        impl $name {
            /// The value of the discriminator.
            pub fn tag(&self) -> &str {
                match self {
                    $( Self::$variant(_) => $wire, )*
                    Self::Other(unknown) => &unknown.tag,
                }
            }
        }

        impl $crate::Decode for $name {
            fn decode(json: &mut tieline_json::Reader<'_>) -> Result<Self, tieline_json::Error> {
                $crate::union::read(json, $tag, |json, $crate::union::Open { tag, start, fields }| match &*tag {
                    $( $wire $(| $alias)* => {
                        <$inner as $crate::DecodeFields>::decode_fields(json, fields).map(Self::$variant)
                    } )*
                    other => {
                        json.doubt();
                        json.rewind(start);
                        if $crate::macros::tagged!(@is_closed $($how)?) {
                            $crate::union::stray(json, $tag, other, &[$($wire),*]);
                        }
                        $crate::Unknown::keep(other, json).map(Self::Other)
                    }
                })
            }
        }

        impl $crate::Encode for $name {
            fn encode(&self, out: &mut $crate::Writer<'_>) {
                match self {
                    $( Self::$variant(inner) => out.tagged(concat!("{\"", $tag, "\":\"", $wire, "\","), inner), )*
                    $( Self::Other(_) if out.speaks($crate::Dialects::OLD) => out.key($instead), )?
                    Self::Other(unknown) => unknown.encode(out),
                }
            }
        }

        $crate::serde_codec::codec!($name);
    };
}

/// Reads the keys of an object into variables, for what a record can't say. The words behind them are those of a record, or name a
/// function that reads the value; `strict` gives `None` where the key is absent. A key counts only where its condition holds.
macro_rules! fields {
    ($json:ident { $($fields:tt)* }) => {
        let mut object = $json.object()?;
        $crate::macros::fields!($json, object { $($fields)* });
    };
    ($json:ident, $object:ident { $( $key:literal $(if $when:expr)? => $field:ident, $how:ident; )* }) => {
        $( let mut $field = Default::default(); )*
        while let Some(key) = $object.key($json)? {
            match &*key {
                $( $key $(if $when)? => $field = $crate::macros::fields!(@read $how $json $key), )*
                _ => $json.pass(&key)?,
            }
        }
    };
    (@read strict $json:ident $key:literal) => { Some($crate::codec::read::strict($json, $key)?) };
    (@read lenient $json:ident $key:literal) => { $crate::codec::read::lenient($json, $key)? };
    (@read list $json:ident $key:literal) => { $crate::codec::read::list($json, $key)? };
    (@read whole $json:ident $key:literal) => { $crate::codec::read::whole($json, $key)? };
    (@read required_list $json:ident $key:literal) => { Some($crate::codec::read::required_list($json, $key)?) };
    (@read keep $json:ident $key:literal) => { Some($json.keep()?) };
    (@read $with:ident $json:ident $key:literal) => { $with($json)? };
}

pub(crate) use {fields, open_enum, record, tagged};
