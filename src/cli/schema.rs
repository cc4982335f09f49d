//! The JSON Schemas of the files that people and programs read or write. They are documents in docs/schemas; tests hold
//! their keys against the parsers.

use clap::ValueEnum;

/// A file format with a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Schema {
    /// envlock.toml
    Manifest,
    /// Host files (`envlock probe --save`)
    Host,
    /// envlock.lock
    Lock,
}

impl Schema {
    /// The schema, as JSON (draft 2020-12).
    pub fn text(self) -> &'static str {
        match self {
            Schema::Manifest => include_str!("../../docs/schemas/manifest.json"),
            Schema::Host => include_str!("../../docs/schemas/host.json"),
            Schema::Lock => include_str!("../../docs/schemas/lock.json"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;
    use crate::probe::host_file;
    use crate::session::manifest;

    fn schema(of: Schema) -> Value {
        serde_json::from_str(of.text()).unwrap()
    }

    /// The keys that serde expects where an unknown one stands, from its message.
    fn expected(message: &str) -> BTreeSet<String> {
        let list = message.rsplit_once("expected").expect(message).1;
        list.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    }

    fn properties(schema: &Value) -> BTreeSet<String> {
        assert_eq!(schema["additionalProperties"], false, "{schema:#}");
        schema["properties"].as_object().unwrap().keys().cloned().collect()
    }

    #[test]
    fn keys_of_a_host_file_are_those_that_are_read() {
        let all = schema(Schema::Host);
        let of = |name: &str| &all["properties"][name];
        for (text, table) in [
            ("zz = 1", &all),
            ("[driver]\nzz = 1", of("driver")),
            ("[[gpu]]\nzz = 1", &of("gpu")["items"]),
            ("[system]\nzz = 1", of("system")),
            ("[loader]\nzz = 1", of("loader")),
            ("[environment]\nzz = 1", of("environment")),
        ] {
            let why = host_file::parse(&format!("schema = 1\n{text}\n"), "h").unwrap_err();
            assert_eq!(properties(table), expected(&why), "{text}");
        }
    }

    #[test]
    fn keys_of_a_manifest_are_those_that_are_read() {
        let all = schema(Schema::Manifest);
        let of = |name: &str| &all["properties"][name];
        for (text, table) in [
            ("zz = 1", &all),
            ("[project]\nzz = 1", of("project")),
            ("[target.a]\nzz = 1", &of("target")["additionalProperties"]),
            ("[[index]]\nzz = 1", &of("index")["items"]),
            ("[resolve]\nzz = 1", of("resolve")),
            ("[registry]\nzz = 1", of("registry")),
            ("[sync]\nzz = 1", of("sync")),
            ("[[metadata]]\nzz = 1", &of("metadata")["items"]),
        ] {
            let why = manifest::parse(text, "envlock.toml").unwrap_err().message;
            let first = why.lines().next().unwrap();
            assert_eq!(properties(table), expected(first), "{text}");
        }
    }
}
