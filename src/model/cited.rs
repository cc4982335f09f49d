//! A fact with what it rests on.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{DeserializeSeed, Error as _, IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::evidence::Evidence;

/// A row with its evidence and its sources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cited<R> {
    row: R,
    /// How it is known.
    pub evidence: Evidence,
    /// Where it stands: ids of `sources.toml`.
    pub source: Vec<String>,
}

impl<R> Cited<R> {
    /// A row that is in no file.
    pub fn new(row: R, evidence: Evidence, source: Vec<String>) -> Cited<R> {
        Cited { row, evidence, source }
    }

    /// What is made of the row rests on the same.
    pub fn map<T>(self, with: impl FnOnce(R) -> T) -> Cited<T> {
        Cited { row: with(self.row), evidence: self.evidence, source: self.source }
    }
}

impl<R> Deref for Cited<R> {
    type Target = R;

    fn deref(&self) -> &R {
        &self.row
    }
}

impl<R> DerefMut for Cited<R> {
    fn deref_mut(&mut self) -> &mut R {
        &mut self.row
    }
}

impl<'de, R: Deserialize<'de>> Deserialize<'de> for Cited<R> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Whole<R>(PhantomData<R>);
        impl<'de, R: Deserialize<'de>> Visitor<'de> for Whole<R> {
            type Value = Cited<R>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a row")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Cited<R>, A::Error> {
                let mut rest = WithoutCitation { map, evidence: None, source: None };
                let row = R::deserialize(MapAccessDeserializer::new(&mut rest))?;
                Ok(Cited {
                    row,
                    evidence: rest.evidence.ok_or_else(|| A::Error::missing_field("evidence"))?,
                    source: rest.source.ok_or_else(|| A::Error::missing_field("source"))?,
                })
            }
        }
        deserializer.deserialize_map(Whole(PhantomData))
    }
}

/// The keys of a row without those that every row has, which are read on the way.
struct WithoutCitation<A> {
    map: A,
    evidence: Option<Evidence>,
    source: Option<Vec<String>>,
}

enum Key<K> {
    Evidence,
    Source,
    OfRow(K),
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for &mut WithoutCitation<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        let mut seed = Some(seed);
        while let Some(key) = self.map.next_key_seed(KeySeed(&mut seed))? {
            match key {
                Key::Evidence => self.evidence = Some(self.map.next_value()?),
                Key::Source => self.source = Some(self.map.next_value()?),
                Key::OfRow(key) => return Ok(Some(key)),
            }
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}

struct KeySeed<'s, K>(&'s mut Option<K>);

impl<'de, K: DeserializeSeed<'de>> DeserializeSeed<'de> for KeySeed<'_, K> {
    type Value = Key<K::Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl<'de, K: DeserializeSeed<'de>> Visitor<'de> for KeySeed<'_, K> {
    type Value = Key<K::Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: serde::de::Error>(self, key: &str) -> Result<Self::Value, E> {
        match (key, self.0.take()) {
            ("evidence", seed) => {
                *self.0 = seed;
                Ok(Key::Evidence)
            }
            ("source", seed) => {
                *self.0 = seed;
                Ok(Key::Source)
            }
            (key, Some(seed)) => {
                let key: StrDeserializer<'_, E> = key.into_deserializer();
                seed.deserialize(key).map(Key::OfRow)
            }
            (_, None) => Err(E::custom("a key after the last")),
        }
    }
}
