//! The page of all fields, docs/schemas/README.md: the schemas as tables for people.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::Value;

/// Introduction of the page.
const INTRODUCTION: &str = "\
# Fields of JSON output

Each table has the fields of a document that packfs prints with `--json`, or of a line of its results. `a.b` is the field
`b` of the object `a`; `a[]` stands for each element of the array `a`, and `a.*` for each value of an object whose names
vary. [JSON output](../guide/json.md) explains what all documents have in common. This page is made from the schemas
beside it.
";

/// Fields that the introduction of the guide explains.
const COMMON_FIELDS: [&str; 2] = ["schema", "kind"];

/// Makes the page from the names and texts of all schemas.
pub(super) fn fields_page(schemas: &[(&str, String)]) -> String {
    let links: Vec<String> = schemas.iter().map(|(name, _)| format!("[{}](#{name})", heading(name))).collect();
    let mut page = format!("{INTRODUCTION}\n{}\n", wrap(&format!("{}.", links.join(", "))));
    for (name, text) in schemas {
        let root: Value = serde_json::from_str(text).expect("a schema is JSON");
        write!(page, "\n## {}\n\n[{name}.schema.json]({name}.schema.json)\n", heading(name)).expect("memory");
        let documents = root["anyOf"].as_array().map_or(std::slice::from_ref(&root), Vec::as_slice);
        for document in documents {
            let mut table = FieldTable { root: &root, seen: BTreeMap::new(), rows: Vec::new() };
            let (document, _) = table.resolved(document);
            table.add_fields(document, "");
            let kind = document["properties"]["kind"]["const"].as_str();
            let kind = kind.map_or_else(String::new, |kind| format!(" `kind` is `{kind}`."));
            let about = document["description"].as_str().expect("a document is described");
            write!(page, "\n{}\n\n| field | type | |\n|---|---|---|\n", wrap(&format!("{about}{kind}")))
                .expect("memory");
            for row in table.rows {
                writeln!(page, "{row}").expect("memory");
            }
        }
    }
    page
}

/// Returns the heading of a schema, whose anchor is the schema's name.
fn heading(name: &str) -> String {
    name.replace('-', " ")
}

/// Breaks a paragraph into lines of 120 characters.
fn wrap(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is a line");
        if !line.is_empty() && line.len() + 1 + word.len() > 120 {
            lines.push(word.to_owned());
        } else {
            line.push_str(if line.is_empty() { "" } else { " " });
            line.push_str(word);
        }
    }
    lines.join("\n")
}

/// Rows of the table of a document.
struct FieldTable<'s> {
    root: &'s Value,
    /// Definitions whose fields are in the table, and the first path that has them.
    seen: BTreeMap<&'s str, String>,
    rows: Vec<String>,
}

/// An object within a field: the field itself, the elements of an array, or the values of an object whose names vary.
struct InnerSchema<'s> {
    schema: &'s Value,
    definition: Option<&'s str>,
    /// Path of the field, with `[]` for elements and `.*` for values.
    path: String,
}

impl<'s> FieldTable<'s> {
    /// Follows a reference; returns the schema and the name of its definition.
    fn resolved(&self, schema: &'s Value) -> (&'s Value, Option<&'s str>) {
        match schema["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/")) {
            Some(name) => (&self.root["$defs"][name], Some(name)),
            None => (schema, None),
        }
    }

    /// Adds the fields of an object, whose path ends with a point if it is not empty.
    fn add_fields(&mut self, schema: &'s Value, path: &str) {
        let properties = schema["properties"].as_object();
        // Required fields are in the order of their definition.
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let names = properties.into_iter().flat_map(|all| all.keys().map(String::as_str));
        let others = names.filter(|name| !required.contains(name));
        for name in required.iter().copied().chain(others) {
            let is_common = path.is_empty() && COMMON_FIELDS.contains(&name);
            if let Some(property) = properties.and_then(|all| all.get(name)).filter(|_| !is_common) {
                let of_object = schema["description"].as_str().unwrap_or_default();
                self.add_field(property, of_object, format!("{path}{name}"));
            }
        }
        for part in alternatives(schema) {
            let (part, _) = self.resolved(part);
            self.add_fields(part, path);
        }
    }

    /// Adds a field and those below it; `of_object` describes the object if the field has no description.
    fn add_field(&mut self, property: &'s Value, of_object: &str, path: String) {
        let mut about = property["description"].as_str().unwrap_or(of_object).to_owned();
        let type_words = self.type_words(property);
        let inner = self.inner(property, path.clone());
        for (value, meaning) in named_values(inner.schema) {
            about += &format!(" `{value}`: {meaning}");
        }
        let first = inner.definition.and_then(|name| self.seen.get(name));
        if let Some(first) = first {
            about += &format!(" The fields are those of `{first}`.");
        }
        let is_new = first.is_none();
        let row = format!("| `{path}` | {type_words} | {} |", about.trim().replace('|', "\\|"));
        if !self.rows.contains(&row) {
            self.rows.push(row);
        }
        let has_fields = inner.schema.get("properties").is_some() || named_values(inner.schema).is_empty();
        if is_new && has_fields {
            if let Some(name) = inner.definition.filter(|_| inner.schema.get("properties").is_some()) {
                self.seen.insert(name, inner.path.clone());
            }
            self.add_fields(inner.schema, &format!("{}.", inner.path));
        }
    }

    /// Returns the schema of the objects in a field.
    fn inner(&self, property: &'s Value, path: String) -> InnerSchema<'s> {
        let (schema, definition) = self.resolved(without_null(property));
        if let Some(items) = schema.get("items") {
            return self.inner(items, path + "[]");
        }
        match schema.get("additionalProperties").filter(|values| values.is_object()) {
            Some(values) => self.inner(values, path + ".*"),
            None => InnerSchema { schema, definition, path },
        }
    }

    /// Describes the type of a field.
    fn type_words(&self, property: &'s Value) -> String {
        let (schema, _) = self.resolved(without_null(property));
        let words = match (schema.get("const"), type_name(schema)) {
            (Some(value), _) => format!("`{}`", value.to_string().trim_matches('"')),
            (None, Some("string")) => "text".to_owned(),
            (None, Some("boolean")) => "true or false".to_owned(),
            (None, Some("array")) => match schema["prefixItems"].as_array() {
                Some(items) => format!("array of {}", items.len()),
                None => "array".to_owned(),
            },
            (None, Some(name)) => name.to_owned(),
            (None, None) if named_values(schema).is_empty() => "object".to_owned(),
            (None, None) => "text".to_owned(),
        };
        let is_nullable = !std::ptr::eq(without_null(property), property)
            || property["type"].as_array().is_some_and(|types| types.iter().any(|name| name == "null"));
        if is_nullable { words + " or null" } else { words }
    }
}

/// Returns the parts of a schema that concern the same object.
fn alternatives(schema: &Value) -> impl Iterator<Item = &Value> {
    ["allOf", "anyOf", "oneOf"].into_iter().flat_map(|keyword| schema[keyword].as_array().into_iter().flatten())
}

/// Returns the type of a schema, other than null.
fn type_name(schema: &Value) -> Option<&str> {
    match &schema["type"] {
        Value::Array(types) => types.iter().filter_map(Value::as_str).find(|name| *name != "null"),
        name => name.as_str(),
    }
}

/// Returns the schema that is not null of two alternatives.
fn without_null(schema: &Value) -> &Value {
    let is_null = |one: &&Value| one["type"] == "null";
    match schema["anyOf"].as_array() {
        Some(both) if both.iter().any(|one| is_null(&one)) => both.iter().find(|one| !is_null(one)).unwrap_or(schema),
        _ => schema,
    }
}

/// Returns the values of a field that has only certain ones, with their meanings.
fn named_values(schema: &Value) -> Vec<(&str, &str)> {
    let all = schema["oneOf"].as_array().into_iter().flatten();
    all.filter_map(|one| Some((one["const"].as_str()?, one["description"].as_str().unwrap_or_default()))).collect()
}
