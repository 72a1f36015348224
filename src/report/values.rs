//! How metrics become JSON: `dtod.exposed_ns` is a field of the object `dtod`.

use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::model::metric::{Metric, Num, Spread, Summary, Values};

impl Serialize for Num {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match *self {
            Num::Int(v) => s.serialize_i64(v),
            Num::Real(v) => s.serialize_f64(v),
        }
    }
}

impl Serialize for Spread {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut map = s.serialize_map(Some(4))?;
        map.serialize_entry("median", &self.median)?;
        map.serialize_entry("mean", &self.mean)?;
        map.serialize_entry("min", &self.min)?;
        map.serialize_entry("max", &self.max)?;
        map.end()
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

#[cfg(test)]
mod tests {
    use super::*;

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
