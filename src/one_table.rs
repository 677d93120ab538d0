//! Two sets of keys in one TOML table: the keys that many kinds share, and those of one kind.
//!
//! Serde's `flatten` loses the name of a wrong key and cannot refuse unknown ones. Here a table is buffered, each key goes
//! to the struct that has a field of its name, and an unknown key is refused with a list of both structs' keys.

use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{self, Deserialize, Deserializer, Error, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;
use serde::ser::{Error as _, Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Mutex;

/// Whether a key has its default value and so need not be written: for `skip_serializing_if`.
pub fn is_usual<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The same check for a key whose default is true.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
pub fn is_true(value: &bool) -> bool {
    *value
}

/// Reads a word that may also be written as a whole number, such as a step number: for `deserialize_with`. Its schema has both
/// types.
///
/// # Errors
/// If the value is of another type.
pub fn word_or_number<'de, D: Deserializer<'de>>(d: D) -> Result<Option<String>, D::Error> {
    struct Word;
    impl Visitor<'_> for Word {
        type Value = Option<String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string or a whole number")
        }

        fn visit_str<E: Error>(self, word: &str) -> Result<Self::Value, E> {
            Ok(Some(word.into()))
        }

        fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
            Ok(Some(number.to_string()))
        }

        fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
            Ok(Some(number.to_string()))
        }

        fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
            Ok(None)
        }
    }
    d.deserialize_any(Word)
}

/// Implements serde's traits for a struct whose field `$part` of type `$type` is written into the struct's own table. The struct
/// derives both traits with `#[serde(remote = "Self")]` and skips the field. `$hidden` names the keys that are not written.
macro_rules! one_table {
    ($config:ident, $part:ident: $type:ty, $hidden:expr) => {
        impl<'de> serde::Deserialize<'de> for $config {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                let own = $crate::one_table::fields(|probe| $config::deserialize(probe).map(drop));
                let (own, part) = $crate::one_table::read::<D, $type>(d, own)?;
                let mut config = $config::deserialize(own)?;
                config.$part = part;
                Ok(config)
            }
        }

        impl serde::Serialize for $config {
            fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                struct Own<'a>(&'a $config);
                impl serde::Serialize for Own<'_> {
                    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                        $config::serialize(self.0, s)
                    }
                }
                let hidden: fn(&$config) -> &'static [&'static str] = $hidden;
                $crate::one_table::write(s, &Own(self), &self.$part, hidden(self))
            }
        }
    };
}
pub(crate) use one_table;

/// Returns the names of a struct's fields; `read` must deserialize the struct from the given deserializer.
pub fn fields(read: impl FnOnce(Probe) -> Result<(), Fields>) -> &'static [&'static str] {
    match read(Probe) {
        Err(Fields(names)) => names,
        Ok(()) => &[],
    }
}

/// Splits a table into the keys of `P`, which are deserialized, and a deserializer of the other keys, the fields `own` of another
/// struct.
///
/// # Errors
/// If a key belongs to neither, or `P` refuses its keys.
pub fn read<'de, D: Deserializer<'de>, P: Deserialize<'de>>(
    d: D,
    own: &'static [&'static str],
) -> Result<(Buffered<D::Error>, P), D::Error> {
    let part = fields(|probe| P::deserialize(probe).map(drop));
    let Value::Map(entries) = d.deserialize_map(Buffer)? else {
        return Err(D::Error::custom("expected a table"));
    };
    let (mut of_part, mut of_own) = (Vec::new(), Vec::new());
    for (key, value) in entries {
        if part.contains(&key.as_str()) {
            of_part.push((key, value));
        } else if own.contains(&key.as_str()) {
            of_own.push((key, value));
        } else {
            return Err(D::Error::unknown_field(&key, both(own, part)));
        }
    }
    let part = P::deserialize(Buffered::new(Value::Map(of_part)))?;
    Ok((Buffered::new(Value::Map(of_own)), part))
}

/// Writes two structs as one table, without the keys `hidden`.
///
/// # Errors
/// If TOML cannot represent a value.
pub fn write<S: Serializer>(
    s: S,
    own: &impl Serialize,
    part: &impl Serialize,
    hidden: &[&str],
) -> Result<S::Ok, S::Error> {
    let mut table = toml::Table::try_from(own).map_err(S::Error::custom)?;
    table.extend(toml::Table::try_from(part).map_err(S::Error::custom)?);
    table.retain(|key, _| !hidden.contains(&key));
    table.serialize(s)
}

/// Joins two lists of names into one that lives as long as the program; it is built once for each pair of lists.
fn both(own: &'static [&'static str], part: &'static [&'static str]) -> &'static [&'static str] {
    type Lists = BTreeMap<Vec<&'static str>, &'static [&'static str]>;
    static LISTS: Mutex<Lists> = Mutex::new(BTreeMap::new());
    let others = part.iter().filter(|name| !own.contains(name));
    let all: Vec<&'static str> = own.iter().chain(others).copied().collect();
    let mut lists = LISTS.lock().unwrap_or_else(|e| e.into_inner());
    lists
        .entry(all.clone())
        .or_insert_with(|| Box::leak(all.into_boxed_slice()))
}

/// A deserializer that answers a struct's request for its fields with an error that holds their names.
pub struct Probe;

/// The names of a struct's fields.
#[derive(Debug)]
pub struct Fields(&'static [&'static str]);

impl fmt::Display for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.join(", "))
    }
}

impl std::error::Error for Fields {}

impl de::Error for Fields {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self(&[])
    }
}

impl<'de> Deserializer<'de> for Probe {
    type Error = Fields;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Fields> {
        Err(Fields(&[]))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Fields> {
        Err(Fields(fields))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// A buffered value of a configuration file.
enum Value {
    Bool(bool),
    Integer(i64),
    Unsigned(u64),
    Float(f64),
    String(String),
    List(Vec<Value>),
    Map(Vec<(String, Value)>),
}

/// A visitor that buffers any value.
struct Buffer;

impl<'de> de::DeserializeSeed<'de> for Buffer {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<Value, D::Error> {
        d.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Buffer {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a table")
    }

    fn visit_bool<E>(self, x: bool) -> Result<Value, E> {
        Ok(Value::Bool(x))
    }

    fn visit_i64<E>(self, x: i64) -> Result<Value, E> {
        Ok(Value::Integer(x))
    }

    fn visit_u64<E>(self, x: u64) -> Result<Value, E> {
        Ok(Value::Unsigned(x))
    }

    fn visit_f64<E>(self, x: f64) -> Result<Value, E> {
        Ok(Value::Float(x))
    }

    fn visit_str<E>(self, x: &str) -> Result<Value, E> {
        Ok(Value::String(x.into()))
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut all: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = all.next_element_seed(Buffer)? {
            items.push(item);
        }
        Ok(Value::List(items))
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut all: A) -> Result<Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = all.next_key::<String>()? {
            entries.push((key, all.next_value_seed(Buffer)?));
        }
        Ok(Value::Map(entries))
    }
}

/// A deserializer of a buffered value, with the error type of the deserializer that it came from.
pub struct Buffered<E> {
    value: Value,
    error: PhantomData<E>,
}

impl<E> Buffered<E> {
    fn new(value: Value) -> Self {
        Self {
            value,
            error: PhantomData,
        }
    }
}

impl<E: de::Error> IntoDeserializer<'_, E> for Buffered<E> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de, E: de::Error> Deserializer<'de> for Buffered<E> {
    type Error = E;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
        match self.value {
            Value::Bool(x) => visitor.visit_bool(x),
            Value::Integer(x) => visitor.visit_i64(x),
            Value::Unsigned(x) => visitor.visit_u64(x),
            Value::Float(x) => visitor.visit_f64(x),
            Value::String(x) => visitor.visit_string(x),
            Value::List(items) => {
                visitor.visit_seq(SeqDeserializer::new(items.into_iter().map(Self::new)))
            }
            Value::Map(entries) => {
                let entries = entries.into_iter().map(|(k, v)| (k, Self::new(v)));
                visitor.visit_map(MapDeserializer::new(entries))
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, E> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, E> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, E> {
        match self.value {
            Value::String(x) => x
                .into_deserializer()
                .deserialize_enum(name, variants, visitor),
            _ => Err(E::invalid_type(
                de::Unexpected::Other("another type"),
                &"a string",
            )),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        seq tuple tuple_struct map struct identifier ignored_any
    }
}
