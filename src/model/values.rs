//! How metrics become JSON and are read back: `dtod.exposed_ns` is a field of the object `dtod`.

use std::fmt;

use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::model::metric::{Metric, Num, Summary, Values};

impl Serialize for Num {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match *self {
            Num::Int(v) => s.serialize_i64(v),
            Num::Real(v) => s.serialize_f64(v),
        }
    }
}

impl<'de> Deserialize<'de> for Num {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Number;
        impl Visitor<'_> for Number {
            type Value = Num;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a number")
            }
            fn visit_i64<E: de::Error>(self, v: i64) -> Result<Num, E> {
                Ok(Num::Int(v))
            }
            fn visit_u64<E: de::Error>(self, v: u64) -> Result<Num, E> {
                i64::try_from(v).map(Num::Int).map_err(|_| E::custom("a number beyond 2^63"))
            }
            fn visit_f64<E: de::Error>(self, v: f64) -> Result<Num, E> {
                Ok(Num::Real(v))
            }
        }
        d.deserialize_any(Number)
    }
}

impl Serialize for Values {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        nested(s, Metric::ALL, |m| &self[m])
    }
}

impl Serialize for Summary {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        nested(s, Metric::ALL, |m| &self[m])
    }
}

/// Writes one entry for each metric, those that share the part before the dot as one object.
/// Metrics of one object stand side by side in [`Metric::ALL`].
pub(crate) fn nested<'a, S: Serializer, T: Serialize + 'a>(
    s: S,
    metrics: &[Metric],
    get: impl Fn(Metric) -> &'a T,
) -> Result<S::Ok, S::Error> {
    let mut map = s.serialize_map(None)?;
    let mut rest = metrics;
    while let Some((&first, tail)) = rest.split_first() {
        match first.info().path.split_once('.') {
            None => {
                map.serialize_entry(first.info().path, get(first))?;
                rest = tail;
            }
            Some((object, _)) => {
                let len = rest
                    .iter()
                    .take_while(|m| m.info().path.split_once('.').is_some_and(|(o, _)| o == object))
                    .count();
                map.serialize_entry(object, &Object { metrics: &rest[..len], get: &get })?;
                rest = &rest[len..];
            }
        }
    }
    map.end()
}

struct Object<'m, G> {
    metrics: &'m [Metric],
    get: G,
}

impl<'a, T: Serialize + 'a, G: Fn(Metric) -> &'a T> Serialize for Object<'_, G> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut map = s.serialize_map(Some(self.metrics.len()))?;
        for &metric in self.metrics {
            let path = metric.info().path;
            map.serialize_entry(
                path.split_once('.').map_or(path, |(_, field)| field),
                (self.get)(metric),
            )?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Values {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        read_nested(d).map(|read| Values::from_fn(|m| read[m as usize]))
    }
}

impl<'de> Deserialize<'de> for Summary {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        read_nested(d).map(|read| Summary::from_fn(|m| read[m as usize]))
    }
}

/// Reads what [`nested`] writes. Metrics that are not there were not measured, and fields that are not metrics are passed over.
fn read_nested<'de, D: Deserializer<'de>, T: Deserialize<'de> + Copy>(
    d: D,
) -> Result<[Option<T>; Metric::COUNT], D::Error> {
    let mut read = [None; Metric::COUNT];
    Fields { object: None, read: &mut read }.deserialize(d)?;
    Ok(read)
}

/// The fields of one object, or those outside objects.
struct Fields<'a, T> {
    object: Option<&'a str>,
    read: &'a mut [Option<T>; Metric::COUNT],
}

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for Fields<'_, T> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<(), D::Error> {
        d.deserialize_map(self)
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<'_, T> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object of metrics")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            if let Some(metric) = metric_at(self.object, &key) {
                self.read[metric as usize] = map.next_value()?;
            } else if self.object.is_none() && is_object(&key) {
                map.next_value_seed(Fields { object: Some(&key), read: &mut *self.read })?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

/// The object and the field of it that a metric is.
fn place(metric: Metric) -> (Option<&'static str>, &'static str) {
    let path = metric.info().path;
    path.split_once('.').map_or((None, path), |(object, field)| (Some(object), field))
}

fn metric_at(object: Option<&str>, field: &str) -> Option<Metric> {
    Metric::ALL.iter().copied().find(|&metric| place(metric) == (object, field))
}

fn is_object(name: &str) -> bool {
    Metric::ALL.iter().any(|&metric| place(metric).0 == Some(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_back_as_they_were_written() {
        let mut values = Values::from_fn(|metric| Some(Num::Int(metric as i64 - 3)));
        // 0.1 + 0.2 needs all 17 digits; a whole ratio stays a ratio.
        values[Metric::CommFraction] = Some(Num::Real(0.1 + 0.2));
        values[Metric::OverlapFraction] = Some(Num::Real(1.0));
        values[Metric::DtodBytes] = None;
        let text = serde_json::to_string(&values).expect("serialises");
        assert!(text.contains("0.30000000000000004") && text.contains(":1.0"), "{text}");
        assert_eq!(serde_json::from_str::<Values>(&text).expect("is read"), values);

        let text = r#"{"later": {"x": [1]}, "dtod": {"later": 1, "ns": 4}, "step_ns": 9}"#;
        let read: Values = serde_json::from_str(text).expect("is read");
        let mut expected = Values::unmeasured();
        expected.set(Metric::DtodNs, 4);
        expected.set(Metric::StepNs, 9);
        assert_eq!(read, expected);
        for wrong in
            [r#"{"step_ns": "9"}"#, r#"{"dtod": 3}"#, r#"{"step_ns": 9223372036854775808}"#]
        {
            assert!(serde_json::from_str::<Values>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn copies_are_nested_and_missing_numbers_are_null() {
        let mut values = Values::unmeasured();
        values.set(Metric::DtodNs, 5);
        values.set(Metric::DtodCount, 2);
        let json = serde_json::to_value(&values).expect("serialises");
        assert_eq!(json["dtod"]["ns"], 5);
        assert_eq!(json["dtod"]["count"], 2);
        assert!(json["dtod"]["bytes"].is_null());
        assert!(json["step_ns"].is_null());
    }
}
