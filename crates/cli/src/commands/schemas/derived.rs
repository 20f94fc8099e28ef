//! The schemas as they follow from the types that are serialised, and tests that the files are these.

use std::collections::BTreeSet;
use std::path::Path;

use packfs_bench::record;
use packfs_image::build::{PlanSummary, PlannedSet, Status};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde_json::ser::PrettyFormatter;
use serde_json::{Map, Serializer, Value, json};

use super::SCHEMAS;
use super::fields::fields_page;
use crate::commands::apply::ApplyReport;
use crate::commands::bench::build::BuildResult;
use crate::commands::bench::codecs::CodecResult;
use crate::commands::bench::read::ReadResult;
use crate::commands::bench::session::BenchDocument;
use crate::commands::bench::split::SplitResult;
use crate::commands::build::composefs::ComposefsReport;
use crate::commands::build::dry::DryRunReport;
use crate::commands::build::report::BuildReport;
use crate::commands::check::CheckReport;
use crate::commands::cluster::scan::ScannedPart;
use crate::commands::cluster::{AssembledImage, AssembledSet, ClusterReport, PackedShard, PlanFigures};
use crate::commands::delta::DeltaReport;
use crate::commands::diff::DiffReport;
use crate::commands::info::erofs::ErofsInfo;
use crate::commands::info::squashfs::SquashfsInfo;
use crate::commands::info::{InfoDocument, InodeDocument};
use crate::commands::join::JoinSummary;
use crate::commands::list::json::EntryList;
use crate::commands::oci::{CacheReport, ConvertReport, ExportReport, MergeReport};
use crate::commands::parts::{DumpCheck, DumpInfo};
use crate::commands::seal::{SealReport, SifReport};
use crate::commands::split::SplitSummary;
use crate::commands::tune::TuneReport;
use crate::commands::update::UpdateReport;
use crate::commands::verify::VerifyReport;
use crate::output::json::{JsonDocument, SCHEMA, VersionedDocument};

/// Makes the schema of one document.
type MakeSchema = fn(&mut SchemaGenerator) -> Schema;

/// A document that a command may print.
struct DocumentSchema {
    name: String,
    make: MakeSchema,
}

/// A document that is about its content as a whole.
fn document<T: JsonDocument + JsonSchema>() -> DocumentSchema {
    document_about::<T, T>()
}

/// A document whose content is generic: `About`, which it contains, names and describes it.
fn document_about<T: JsonDocument + JsonSchema, About: JsonSchema>() -> DocumentSchema {
    DocumentSchema { name: About::schema_name().into_owned(), make: document_schema::<T, About> }
}

fn cluster_document<F: PlanFigures + JsonSchema>() -> DocumentSchema {
    document_about::<ClusterReport<'_, F>, F>()
}

fn document_schema<T: JsonDocument + JsonSchema, About: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = VersionedDocument::<T>::json_schema(generator);
    // The wrapper has the same fields in all documents; what the document is about, its content says.
    let description = About::json_schema(generator).get("description").cloned().expect("every document is described");
    schema.insert("description".into(), description);
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut).expect("a document is an object");
    for (field, value) in [("schema", json!(SCHEMA)), ("kind", json!(T::KIND))] {
        let description = properties[field]["description"].take();
        properties.insert(field.into(), json!({ "description": description, "const": value }));
    }
    schema
}

/// Returns the documents that a command prints.
fn documents(command: &str) -> Vec<DocumentSchema> {
    match command {
        "apply" => vec![document::<ApplyReport>()],
        "assemble" => {
            vec![cluster_document::<AssembledImage>(), cluster_document::<AssembledSet>()]
        }
        "bench-build" => vec![document::<BenchDocument<'_, BuildResult<'_>>>()],
        "bench-codecs" => vec![document::<BenchDocument<'_, CodecResult<'_>>>()],
        "bench-read" => vec![document::<BenchDocument<'_, ReadResult<'_>>>()],
        "bench-results" => vec![DocumentSchema { name: "ResultsLine".into(), make: record::line_schema }],
        "bench-split" => vec![document::<BenchDocument<'_, SplitResult<'_>>>()],
        "build" => vec![document::<BuildReport<'_>>(), document::<DryRunReport<'_>>(), document::<ComposefsReport>()],
        "check" => vec![document::<CheckReport<'_>>(), document::<DumpCheck<'_>>()],
        "delta" => vec![document::<DeltaReport>()],
        "diff" => vec![document::<DiffReport<'_>>()],
        "info" => vec![
            document_about::<InfoDocument<SquashfsInfo>, SquashfsInfo>(),
            document_about::<InfoDocument<ErofsInfo>, ErofsInfo>(),
            document::<InodeDocument<'_>>(),
            document::<DumpInfo>(),
        ],
        "join" => vec![document::<JoinSummary<'_>>()],
        "list" => vec![document::<EntryList>()],
        "oci-cache" => vec![document::<CacheReport>()],
        "oci-convert" => vec![document::<ConvertReport>()],
        "oci-export" => vec![document::<ExportReport>()],
        "oci-merge" => vec![document::<MergeReport>()],
        "plan" => {
            vec![cluster_document::<PlanSummary>(), cluster_document::<PlannedSet>(), cluster_document::<ScannedPart>()]
        }
        "seal" => vec![document::<SealReport<'_>>(), document::<SifReport<'_>>()],
        "shard" => vec![cluster_document::<PackedShard<'_>>()],
        "split" => vec![document::<SplitSummary<'_>>()],
        "status" => vec![document::<Status>()],
        "tune" => vec![document::<TuneReport<'_>>()],
        "update" => vec![document::<UpdateReport>()],
        "verify" => vec![document::<VerifyReport<'_>>()],
        other => panic!("{other}: add its documents here"),
    }
}

/// Returns the text of a command's schema.
fn text_of(command: &str) -> String {
    let mut generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let mut documents = documents(command);
    let mut root = Map::new();
    if documents.len() == 1 {
        root = documents.remove(0).make_in(&mut generator);
    } else {
        let references: Vec<Value> =
            documents.iter().map(|one| json!({ "$ref": format!("#/$defs/{}", one.name) })).collect();
        root.insert("anyOf".into(), references.into());
        for one in documents {
            let schema = one.make_in(&mut generator);
            let other = generator.definitions_mut().insert(one.name, schema.into());
            assert!(other.is_none(), "{command}: two types have the same name");
        }
    }
    let title = match command {
        "bench-results" => "A line of the results of packfs bench".to_owned(),
        command => format!("packfs {} --json", command.replace('-', " ")),
    };
    root.insert("$schema".into(), "https://json-schema.org/draft/2020-12/schema".into());
    root.insert("title".into(), title.into());
    let definitions = generator.take_definitions(true);
    if !definitions.is_empty() {
        root.insert("$defs".into(), definitions.into());
    }
    let mut root = Value::from(root);
    simplify(&mut root);
    // The program contains all schemas: wider indentation would add a third to them.
    let mut text = Vec::new();
    root.serialize(&mut Serializer::with_formatter(&mut text, PrettyFormatter::with_indent(b" "))).unwrap();
    format!("{}\n", String::from_utf8(text).unwrap())
}

impl DocumentSchema {
    fn make_in(&self, generator: &mut SchemaGenerator) -> Map<String, Value> {
        let schema = (self.make)(generator);
        schema.as_object().cloned().expect("a schema of an object")
    }
}

/// Rewrites descriptions, which are doc comments, for readers of JSON: without links, and with `null` for `None`. Widths of
/// numbers go: JSON has none, and they may change. Fields that may be absent are never null.
fn simplify(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if fields.get("format").is_some_and(Value::is_string) {
                fields.remove("format");
            }
            if let Some(Value::String(text)) = fields.get_mut("description") {
                *text = plain_text(text);
            }
            let required = fields.get("required").cloned().unwrap_or_default();
            let is_required = |name: &str| required.as_array().is_some_and(|names| names.iter().any(|one| one == name));
            let properties = fields.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten();
            properties.filter(|(name, _)| !is_required(name)).for_each(|(_, property)| remove_null(property));
            fields.values_mut().for_each(simplify);
        }
        Value::Array(values) => values.iter_mut().for_each(simplify),
        _ => {}
    }
}

/// Removes null from the types of a property.
fn remove_null(property: &mut Value) {
    if let Some(types) = property["type"].as_array() {
        let others: Vec<Value> = types.iter().filter(|name| *name != "null").cloned().collect();
        property["type"] = if let [only] = &others[..] { only.clone() } else { others.into() };
    }
    let alternatives = property["anyOf"].as_array().into_iter().flatten();
    if let [Value::Object(only)] = &alternatives.filter(|one| one["type"] != "null").cloned().collect::<Vec<_>>()[..] {
        let fields = property.as_object_mut().expect("it has alternatives");
        fields.remove("anyOf");
        fields.extend(only.clone());
    }
}

fn plain_text(text: &str) -> String {
    let text = text.replace('\n', " ").replace("`None`", "null");
    let mut plain = String::new();
    let mut rest = text.as_str();
    while let Some((before, link)) = rest.split_once('[') {
        let (label, after) = link.split_once(']').expect("a bracket begins a link");
        plain.push_str(before);
        plain.push_str(label);
        let target = after.strip_prefix('(').and_then(|target| target.split_once(')'));
        rest = target.map_or(after, |(_, after)| after);
    }
    plain + rest
}

#[test]
fn files_are_those_of_the_types() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas");
    let page = folder.join("README.md");
    let texts = SCHEMAS.map(|(name, _)| (name, text_of(name)));
    let fields = fields_page(&texts);
    if std::env::var_os("PACKFS_UPDATE_DOCS").is_some() {
        for (name, text) in texts {
            std::fs::write(folder.join(format!("{name}.schema.json")), text).unwrap();
        }
        return std::fs::write(page, fields).unwrap();
    }
    let files = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let names = SCHEMAS.iter().map(|(name, _)| format!("{name}.schema.json"));
    let expected: BTreeSet<_> = names.chain(["README.md".to_owned()]).collect();
    assert_eq!(files.collect::<BTreeSet<_>>(), expected);
    const UPDATE: &str = "is out of date: PACKFS_UPDATE_DOCS=1 cargo test -p packfs --bin packfs schemas";
    for ((name, text), (_, derived)) in SCHEMAS.iter().zip(&texts) {
        assert!(text == derived, "docs/schemas/{name}.schema.json {UPDATE}");
    }
    assert!(std::fs::read_to_string(page).unwrap() == fields, "docs/schemas/README.md {UPDATE}");
}

/// Users read the schemas instead of tables in the guide.
#[test]
fn every_field_is_described() {
    fn assert_described(value: &Value, place: &str) {
        let Some(fields) = value.as_object() else { return };
        for (name, property) in fields.get("properties").and_then(Value::as_object).into_iter().flatten() {
            // The tag of an enum has one value, which says what the others are.
            let is_tag = property.get("const").is_some();
            assert!(is_tag || property.get("description").is_some(), "{place}: {name} has no doc comment");
        }
        for (name, below) in fields {
            let place = format!("{place}/{name}");
            assert_described(below, &place);
            below.as_array().into_iter().flatten().for_each(|one| assert_described(one, &place));
        }
    }
    for (name, text) in SCHEMAS {
        assert_described(&serde_json::from_str(text).unwrap(), name);
    }
}

#[test]
fn texts_are_for_readers_of_json() {
    let text = "Bytes in\n[`Options::blob`](crate::erofs), or `None` without [it].";
    assert_eq!(plain_text(text), "Bytes in `Options::blob`, or null without it.");
}
