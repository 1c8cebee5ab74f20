//! The reader of ChatMD against cases.
//!
//! A case has `name`, `layer`, `input`, for some `files`, and `expect`: with `ok` a `tree` (layer
//! `ast`, the raw tree) or `elements` (layer `prompt-seed`, the typed document after imports);
//! without `ok` an error is expected. A case with the flag `free` accepts every lossless result
//! whose errors have a position. With `backslash_decoded` the expected values still contain the
//! backslash that escapes a quote. Where `expect` has elements of a larger language, `expect_seed`
//! takes precedence.
//!
//! Three differences are deliberate. Errors that other programs find when a document is used are
//! found here when it is read, and are not failures. A message with an unknown role is not an
//! element. The path of an import counts from the importing file, elsewhere from the first document:
//! a case that fails one way is tried the other way.

use chatmd::{
    DocumentRequest, DocumentText, ImportRequest, ImportedText, MemoryWorld, Tag, Tree, World,
    WorldError, check, load, parse,
};
use logue_source::{Diagnostic, DiagnosticCode};
use serde_json::{Value, json};

use super::typed;

/// Returns the difference between a case and the reading.
pub(super) fn run(case: &Value) -> Result<(), String> {
    let input = case["input"].as_str().ok_or("no `input`")?;
    let tree = parse(input);
    if tree.print() != input {
        return Err("the tree does not give its text back".to_owned());
    }
    for finding in check(input) {
        has_a_place(&finding, input)?;
    }
    if case["free"] == true {
        return Ok(());
    }
    let mut expect = &case["expect"];
    if !case["expect_seed"].is_null() && !is_ours(&expect["tree"]) {
        expect = &case["expect_seed"];
    }
    match case["layer"].as_str() {
        Some("ast") => raw(&tree, expect, case["backslash_decoded"] == true),
        Some("prompt-seed") => {
            let world = files(case);
            seed(input, expect, &mut world.clone())
                .or_else(|why| seed(input, expect, &mut FromTheFirst(world)).map_err(|_| why))
        }
        _ => Err("no `layer` that is known".to_owned()),
    }
}

fn files(case: &Value) -> MemoryWorld {
    let files = case["files"].as_object().into_iter().flatten();
    files.fold(MemoryWorld::new(), |world, (path, text)| {
        world.with(path, text.as_str().unwrap_or_default())
    })
}

/// Imports whose paths count from the first document.
struct FromTheFirst(MemoryWorld);

impl World for FromTheFirst {
    fn document(&mut self, request: &DocumentRequest<'_>) -> Result<DocumentText, WorldError> {
        self.0.document(request)
    }

    fn import(&mut self, request: &ImportRequest<'_>) -> Result<ImportedText, WorldError> {
        self.0.import(&ImportRequest::new(request.src, None))
    }
}

fn has_a_place(finding: &Diagnostic, input: &str) -> Result<(), String> {
    let place = finding.primary;
    let sound = place.start <= place.end && place.text(input).is_some();
    if sound && !finding.help.is_empty() {
        Ok(())
    } else {
        Err(format!("a finding without place or help: {finding:?}"))
    }
}

/// Returns whether an expected tree holds only elements of the language that is read here.
fn is_ours(tree: &Value) -> bool {
    match tree {
        Value::Array(items) => items.iter().all(is_ours),
        Value::Object(object) => {
            let tag = object
                .get("tag")
                .map(|tag| tag.as_str().and_then(Tag::parse));
            tag.is_none_or(|tag| tag.is_some()) && object.get("children").is_none_or(is_ours)
        }
        _ => true,
    }
}

fn raw(tree: &Tree<'_>, expect: &Value, backslashes: bool) -> Result<(), String> {
    let found: Value = serde_json::from_str(&tree.to_json()).map_err(|error| error.to_string())?;
    if expect["ok"] != true {
        // Scripts of later versions are elements here, and their error is found later.
        let (_, later) = chatmd::check_tree(tree);
        let is_script = |found: &Diagnostic| found.code == DiagnosticCode::ScriptUnsupported;
        if later.iter().any(is_script) {
            return Ok(());
        }
        return error_is_due(tree.diagnostics(), &found);
    }
    if let Some(error) = tree.diagnostics().iter().find(|found| found.is_error()) {
        return Err(format!("{} {}", error.code, error.message));
    }
    let mut wanted = expect["tree"].clone();
    decode(&mut wanted, backslashes);
    same(&wanted, &found)
}

/// Values of attributes as they are here: a flag has an empty one.
fn decode(tree: &mut Value, backslashes: bool) {
    let Some(items) = tree.as_array_mut() else {
        return;
    };
    for item in items {
        let attributes = item.get_mut("attrs").and_then(Value::as_array_mut);
        for attribute in attributes.into_iter().flatten() {
            let Some(value) = attribute.get_mut(1) else {
                continue;
            };
            let mut text = value.as_str().unwrap_or_default().to_owned();
            if backslashes {
                text = text.replace("\\\"", "\"").replace("\\'", "'");
            }
            *value = text.into();
        }
        if let Some(children) = item.get_mut("children") {
            decode(children, backslashes);
        }
    }
}

/// Errors that are ours alone where others accept: these are found there too, but later.
const STRICTER: [DiagnosticCode; 5] = [
    DiagnosticCode::MdUnknownTool,
    DiagnosticCode::MdUnknownRole,
    DiagnosticCode::MdMissingAttribute,
    DiagnosticCode::MdDuplicateTool,
    DiagnosticCode::MdSummaryElement,
];

fn seed(input: &str, expect: &Value, world: &mut dyn World) -> Result<(), String> {
    let tree = parse(input);
    let loaded = load("case", input, world);
    let (document, diagnostics) = (loaded.document(), loaded.diagnostics());
    let mut found: Vec<Value> = document.elements.iter().map(typed::element).collect();
    for (value, element) in found.iter_mut().zip(&document.elements) {
        let node = tree.elements().find(|node| node.span() == element.span());
        if let Some(node) = node {
            typed::as_written(value, node);
        }
    }
    if expect["ok"] != true {
        return error_is_due(diagnostics, &json!(found));
    }
    let mut errors = diagnostics.iter().filter(|found| found.is_error());
    if let Some(error) = errors.find(|error| !STRICTER.contains(&error.code)) {
        return Err(format!("{} {}", error.code, error.message));
    }
    let mut wanted = expect["elements"].as_array().cloned().unwrap_or_default();
    if diagnostics
        .iter()
        .any(|found| found.code == DiagnosticCode::MdUnknownRole)
    {
        wanted.retain(|element| element["kind"] != "msg" || typed::has_known_role(element));
    }
    // A number is a number, whether it is written with a fraction or not.
    for value in found.iter_mut().chain(&mut wanted) {
        if let Some(number) = value["temperature"].as_f64() {
            value["temperature"] = json!(number);
        }
    }
    same(&json!(wanted), &json!(found))
}

fn error_is_due(diagnostics: &[Diagnostic], found: &Value) -> Result<(), String> {
    if diagnostics.iter().any(Diagnostic::is_error) {
        Ok(())
    } else {
        Err(format!("an error is expected, {found} found"))
    }
}

fn same(wanted: &Value, found: &Value) -> Result<(), String> {
    if wanted == found {
        Ok(())
    } else {
        Err(format!("{wanted} expected, {found} found"))
    }
}
