//! JSON Schemas of `packfs help json-schema`: documents of every command are valid by them.
//!
//! The schemas allow unknown fields, because later versions may add some. Here they are closed, so that a field that a
//! schema lacks is an error. The judge is the package jsonschema of Python.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::common::program::sh;
use crate::common::{FORMATS, fail, run_in, sample, shorter, skip, stderr, succeed};
use crate::machine::Machine;

/// Reads cases, one a line, and prints what is wrong: of documents, and of alternatives that no document has.
const JUDGE: &str = r##"
import json, sys
from jsonschema import Draft202012Validator as Validator
def with_causes(error):
    yield error
    for cause in error.context or []:
        yield from with_causes(cause)
for line in sys.stdin:
    case = json.loads(line)
    schema = case["schema"]
    Validator.check_schema(schema)
    if not case["documents"]:
        print(f"{case['name']}: no document")
    for document in case["documents"]:
        for error in Validator(schema).iter_errors(document):
            for one in with_causes(error):
                print(f"{case['name']}: {one.json_path}: {one.message[:300]}")
    for alternative in schema.get("anyOf", []):
        judge = Validator({**alternative, "$defs": schema["$defs"]})
        if not any(judge.is_valid(document) for document in case["documents"]):
            print(f"{case['name']}: no document is one of {alternative}")
"##;

/// PrintedDocuments by the names of their schemas.
struct PrintedDocuments<'d> {
    dir: &'d Path,
    collected: RefCell<Vec<(&'static str, Value)>>,
}

impl PrintedDocuments<'_> {
    /// Runs a command that prints a document, and ends with `status`.
    fn take(&self, name: &'static str, status: i32, line: &str) {
        let mut words: Vec<&str> = line.split(' ').collect();
        words.push("--json");
        if !is_never_quiet(line) {
            words.push("-q");
        }
        let output = run_in(self.dir, &words);
        assert_eq!(output.status.code(), Some(status), "packfs {line}: {}", stderr(&output));
        let document = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
            panic!("packfs {line}: {error}: {}", String::from_utf8_lossy(&output.stdout));
        });
        self.collected.borrow_mut().push((name, document));
    }

    /// Takes the lines of a file of results.
    fn take_lines(&self, file: &str) {
        let text = std::fs::read_to_string(self.dir.join(file)).unwrap();
        let lines = text.lines().map(|line| ("bench-results", serde_json::from_str(line).unwrap()));
        self.collected.borrow_mut().extend(lines);
    }
}

/// Returns true if the command has no `--quiet`.
fn is_never_quiet(line: &str) -> bool {
    ["info", "list", "status"].contains(&line.split(' ').next().unwrap())
}

fn names() -> Vec<String> {
    succeed(Path::new("."), &["help", "json-schema"]).lines().map(str::to_owned).collect()
}

fn schema_of(name: &str) -> Value {
    let words: Vec<&str> = ["help", "json-schema"].into_iter().chain(name.split('-')).collect();
    serde_json::from_str(&succeed(Path::new("."), &words)).unwrap()
}

/// Forbids unknown fields in all objects of a schema.
fn close(schema: &mut Value) {
    let mut fragments = BTreeSet::new();
    collect_fragments(schema, false, &mut fragments);
    close_below(schema, false);
    for (name, definition) in schema.get_mut("$defs").and_then(Value::as_object_mut).into_iter().flatten() {
        close_below(definition, fragments.contains(&format!("#/$defs/{name}")));
    }
}

/// Keywords whose schemas concern the same object as the schema around them.
const SAME_OBJECT: [&str; 3] = ["allOf", "anyOf", "oneOf"];

/// Collects references to schemas of only some fields of an object, which other schemas complete.
fn collect_fragments(schema: &Value, is_fragment: bool, found: &mut BTreeSet<String>) {
    if let Some(reference) = schema["$ref"].as_str().filter(|_| is_fragment) {
        found.insert(reference.to_owned());
    }
    let has_fields = is_fragment || schema.get("properties").is_some();
    match schema {
        Value::Object(keywords) => {
            for (keyword, below) in keywords {
                let is_fragment = has_fields && SAME_OBJECT.contains(&keyword.as_str());
                for one in below.as_array().map_or(std::slice::from_ref(below), Vec::as_slice) {
                    collect_fragments(one, is_fragment, found);
                }
            }
        }
        Value::Array(all) => all.iter().for_each(|one| collect_fragments(one, false, found)),
        _ => {}
    }
}

fn close_below(schema: &mut Value, is_fragment: bool) {
    let has_fields = is_fragment || schema.get("properties").is_some();
    let Some(keywords) = schema.as_object_mut() else { return };
    if keywords.contains_key("properties") && !is_fragment {
        keywords.insert("unevaluatedProperties".into(), false.into());
    }
    for (keyword, below) in keywords.iter_mut() {
        match keyword.as_str() {
            // The caller closes definitions.
            "$defs" => {}
            "properties" => below.as_object_mut().unwrap().values_mut().for_each(|one| close_below(one, false)),
            "items" | "additionalProperties" => close_below(below, false),
            "prefixItems" => below.as_array_mut().unwrap().iter_mut().for_each(|one| close_below(one, false)),
            word if SAME_OBJECT.contains(&word) => {
                below.as_array_mut().unwrap().iter_mut().for_each(|one| close_below(one, has_fields));
            }
            _ => {}
        }
    }
}

/// Judges documents by closed schemas; returns what is wrong.
fn judged(documents: &[(&'static str, Value)]) -> String {
    let mut cases = String::new();
    for name in names() {
        let mut schema = schema_of(&name);
        close(&mut schema);
        let own: Vec<&Value> = documents.iter().filter(|(of, _)| *of == name).map(|(_, document)| document).collect();
        cases += &format!("{}\n", json!({ "name": name, "schema": schema, "documents": own }));
    }
    let mut judge = Command::new("python3");
    judge.args(["-c", JUDGE]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut judge = judge.spawn().unwrap();
    judge.stdin.take().unwrap().write_all(cases.as_bytes()).unwrap();
    let output = judge.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns true if the judge is there.
fn have_judge(test: &str) -> bool {
    let found = Command::new("python3").args(["-c", "import jsonschema"]).output();
    let has_judge = found.is_ok_and(|found| found.status.success());
    if !has_judge {
        skip(test, "Python has no jsonschema");
    }
    has_judge
}

#[test]
fn documents_of_images_are_valid() {
    if !have_judge("documents_of_images_are_valid") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    sample(dir);
    let documents = PrintedDocuments { dir, collected: RefCell::default() };
    of_images(&documents);
    of_patches(&documents);
    of_seals(&documents);
    of_layers(&documents);
    of_clusters(&documents);
    of_dumps(&documents);
    of_measurements(&documents);
    let documents = documents.collected.into_inner();
    assert_eq!(judged(&documents), "");

    // The judge sees an unknown field, in the document and deep in it.
    for path in ["", "/stages", "/data", "/warnings/0", "/warnings/0/shown/0"] {
        let mut documents = documents.clone();
        let has_place = |(name, document): &&mut (&str, Value)| *name == "build" && document.pointer(path).is_some();
        let (_, document) = documents.iter_mut().find(has_place).expect("a build has it");
        document.pointer_mut(path).unwrap()["forgotten"] = true.into();
        assert!(judged(&documents).contains("forgotten"), "{path}");
    }
}

fn of_images(documents: &PrintedDocuments<'_>) {
    let dir = documents.dir;
    sh(
        dir,
        "touch -d 2001-02-03T04:05:06.789 root/etc/motd; echo 'glob=*.nothing -> exclude' >rules; cp -r root other; rm other/etc/motd; seq 40000 >root/numbers",
    );
    for format in FORMATS {
        let image = &format!("a.{format}");
        let build = &format!("build root --format {format}");
        documents.take("build", 0, &format!("{build} -o {image} --index --max-file-size 2M"));
        documents.take("build", 0, &format!("{build} -o b.{format} --reuse {image}"));
        documents.take("build", 0, &format!("{build} -o c.{format} --dry-run --rules rules"));
        documents.take("build", 1, &format!("{build} -o {image} --dry-run --max-file-size 1K"));
        documents.take("info", 0, &format!("info {image} --stats"));
        for path in [".", "etc/motd", "usr/share/doc/text", "hole", "usr/motd"] {
            documents.take("info", 0, &format!("info b.{format} --inode {path}"));
        }
        documents.take("list", 0, &format!("list {image} --du"));
        documents.take("check", 0, &format!("check {image}"));
        documents.take("check", 1, &format!("check {image} --against root"));
        documents.take("diff", 0, &format!("diff b.{format} root"));
        documents.take("diff", 1, &format!("diff {image} other"));
        documents.take("diff", 1, &format!("diff {image} b.{format} --superblocks"));
        sh(dir, &format!("cp b.{format} damaged"));
        // The first block of data.
        damage(&dir.join("damaged"), if format == "squashfs" { 96 } else { 4096 });
        documents.take("check", 1, "check damaged");
    }
    documents.take("build", 0, "build root -o refer.erofs --refer");
    documents.take("build", 0, "build root -o root.cfs --composefs --objects objects");
    documents.take("build", 0, "build root -o blob.erofs --blob blob");
    documents.take("info", 0, "info blob.erofs --device blob --stats");
    documents.take("info", 0, "info blob.erofs --device blob --inode usr/share/doc/text");
}

/// Overwrites bytes of a file.
fn damage(path: &Path, offset: u64) {
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.write_all_at(&[0xff; 64], offset).unwrap();
}

fn of_patches(documents: &PrintedDocuments<'_>) {
    documents.take("delta", 0, "delta a.squashfs b.squashfs -o patch");
    documents.take("apply", 0, "apply a.squashfs patch -o applied");
    documents.take("build", 0, "build root -o indexed --delta-index zsync");
    documents.take("update", 0, "update indexed.zsync --from indexed -o updated");
    documents.take("diff", 1, "diff a.squashfs indexed --update-size");
}

fn of_seals(documents: &PrintedDocuments<'_>) {
    documents.take("seal", 0, "seal a.squashfs");
    documents.take("seal", 0, "seal b.erofs --append -o sealed.erofs --no-superblock");
    documents.take("seal", 0, "seal b.erofs -o app.raw --for systemd");
    documents.take("seal", 0, "seal a.squashfs -o app.sif --for sif");
    documents.take("verify", 0, "verify app.raw --as systemd");
    documents.take("verify", 1, "verify b.squashfs --as systemd");
}

fn of_layers(documents: &PrintedDocuments<'_>) {
    let script = r#"
put() { sum=$(sha256sum <"$1" | cut -d' ' -f1); cp "$1" layout/blobs/sha256/$sum; size=$(stat -c %s "$1"); }
mkdir -p layout/blobs/sha256; tar -C root -cf layer.tar .; put layer.tar; layer=$sum; layer_size=$size
printf '{"architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' $layer >config; put config
printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"sha256:%s","size":%s},"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar","digest":"sha256:%s","size":%s}]}' $sum $size $layer $layer_size >manifest; put manifest
printf '{"schemaVersion":2,"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"sha256:%s","size":%s}]}' $sum $size >layout/index.json
printf '{"imageLayoutVersion":"1.0.0"}' >layout/oci-layout
"#;
    sh(documents.dir, script);
    documents.take("oci-convert", 0, "oci convert layout converted");
    documents.take("oci-export", 0, "oci export converted exported");
    documents.take("oci-cache", 0, "oci cache layout cache");
    sh(documents.dir, "cp $(find cache -name '*.erofs') lower.erofs");
    documents.take("oci-merge", 0, "oci merge lower.erofs b.erofs -o merged.erofs");
}

fn of_clusters(documents: &PrintedDocuments<'_>) {
    let dir = documents.dir;
    documents.take("plan", 0, "plan root -o part --scan 0/1");
    documents.take("plan", 0, "plan root -o one.plan --shards 2");
    documents.take("status", 1, "status one.plan one");
    documents.take("shard", 0, "shard one.plan 0 -o one");
    documents.take("shard", 0, "shard one.plan 0 -o one");
    documents.take("shard", 0, "shard one.plan 1 -o one");
    documents.take("status", 0, "status one.plan one");
    documents.take("assemble", 0, "assemble one.plan one -o assembled.sqfs");
    sh(dir, "for shard in one/*; do [ -d $shard ] || truncate -s 10 $shard; done");
    documents.take("status", 1, "status one.plan one");
    std::fs::write(dir.join("list"), "root/etc -o etc.sqfs\nroot -o two.erofs --shards 2\n").unwrap();
    documents.take("plan", 0, "plan --each list -o set.plan");
    documents.take("shard", 0, "shard set.plan 0 -o set");
    documents.take("status", 1, "status set.plan set");
    for task in [1, 2] {
        documents.take("shard", 0, &format!("shard set.plan {task} -o set"));
    }
    documents.take("assemble", 0, "assemble set.plan set");
}

fn of_dumps(documents: &PrintedDocuments<'_>) {
    let dir = documents.dir;
    std::fs::write(dir.join("core"), Machine::new(1500).core()).unwrap();
    documents.take("split", 0, "split core -o p0 -o p1 -o p2 --parity 1 --chunk 64K");
    documents.take("info", 0, "info p0 p1 p2");
    documents.take("info", 0, "info p0 p1");
    documents.take("check", 0, "check p0 p1 p2");
    documents.take("join", 0, "join p0 p1 -o back");
    documents.take("join", 0, "join p0 p1 p2 -o back.kdump --as kdump");
    documents.take("split", 0, "split core -o q0 -o q1 --chunk 64K");
    let left = shorter(dir, ["q0", "q1"]);
    documents.take("check", 1, &format!("check {left}"));
    documents.take("join", 1, &format!("join {left} -o rest --partial"));
    let longer = if left == "q0" { "q1" } else { "q0" };
    for (damaged, parts) in [("p0", "p0 p1 p2"), (longer, "q0 q1")] {
        let path = dir.join(damaged);
        damage(&path, path.metadata().unwrap().len() / 2);
        documents.take("check", 1, &format!("check {parts}"));
    }
    documents.take("join", 0, "join p0 p1 p2 -o repaired");
}

fn of_measurements(documents: &PrintedDocuments<'_>) {
    documents.take("tune", 0, "tune root --codecs lz4,zstd:1 --blocks 64K");
    let few = "--runs 2 -o results";
    documents.take(
        "bench-codecs",
        0,
        &format!("bench codecs --data root --codecs lz4,memcpy --blocks 16K --sample 100K --least 0 {few}"),
    );
    documents.take("bench-build", 0, &format!("bench build root --codecs lz4 --jobs 1 --formats squashfs {few}"));
    let split = "bench split --size 1M --codecs lz4,raw --outputs 2 --disks 2000";
    documents.take("bench-split", 0, &format!("{split} {few}"));
    // The other program fails, which the results tell.
    documents.take("bench-split", 1, &format!("{split} {few} --nsplit /bin/false"));
    documents.take("bench-read", 0, &format!("bench read b.squashfs {few}"));
    documents.take_lines("results");
}

#[test]
fn schemas_are_found_by_the_words_of_their_commands() {
    let schema = schema_of("oci-convert");
    assert_eq!(schema["title"], "packfs oci convert --json");
    let error = fail(Path::new("."), 2, &["help", "json-schema", "cat"]);
    assert!(error.contains("no schema of `cat`: packfs help json-schema lists"), "{error}");
}
