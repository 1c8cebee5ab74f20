//! Lists that occur in two crates or in the documentation have the same entries.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use chatmd::{BUILTINS, BuiltinDeclaration};
use logue_model::{ProviderAccount, ProviderKind};
use logue_tools::{AccessScope, Builtin, BuiltinPower, Roots};

#[test]
fn the_language_and_the_tools_have_the_same_built_ins() {
    let folder = tempfile::tempdir().unwrap();
    let roots = Arc::new(Roots::new([folder.path().to_owned()]).unwrap());
    let scope = AccessScope::new(roots);
    for declaration in BUILTINS {
        let builtins = Builtin::named(declaration.declared);
        let name = declaration.declared;
        assert_eq!(builtins.is_some(), declaration.supported, "{name}");
        let tools = builtins.into_iter().flatten();
        let tools: Vec<_> = tools.map(|builtin| builtin.tool(&scope)).collect();
        let names: Vec<&str> = tools
            .iter()
            .map(|tool| tool.definition().name.as_str())
            .collect();
        if declaration.supported {
            assert_eq!(names, declaration.exposed, "{name}");
        }
    }
    for name in Builtin::ALL.iter().flat_map(|builtin| builtin.names()) {
        let declaration = BuiltinDeclaration::find(name);
        assert!(
            declaration.is_some_and(|declaration| declaration.supported),
            "{name} is not a built-in of ChatMD"
        );
    }
}

#[test]
fn the_documentation_lists_every_built_in_with_its_effect() {
    let page = include_str!("../../../../docs/tools.md");
    let mut documented = BTreeSet::new();
    for row in page.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [declared, _, effect] = cells[..] else {
            continue;
        };
        for name in declared.split('`').skip(1).step_by(2) {
            let builtins = Builtin::named(name).unwrap();
            let power = builtins.iter().map(|builtin| builtin.power()).max();
            let expected = match power.unwrap() {
                BuiltinPower::Reads => "read",
                BuiltinPower::Network => "send requests to allowed hosts",
                BuiltinPower::Writes => "change files",
                BuiltinPower::Asks => "ask the model, on the budget of the run",
                BuiltinPower::Runs => "run programs of the model, in a sandbox",
                _ => "",
            };
            assert_eq!(effect, expected, "{name}");
            documented.insert(name);
        }
    }
    let names = Builtin::ALL.iter().flat_map(|builtin| builtin.names());
    let expected: BTreeSet<&str> = names.copied().chain(["browser"]).collect();
    assert_eq!(documented, expected);
}

#[test]
fn the_documentation_lists_every_provider_and_variable() {
    let page = include_str!("../../../../docs/providers.md");
    for kind in ProviderKind::ALL {
        let prefix = kind.entry().prefix;
        assert!(page.contains(&format!("`{prefix}:")), "{prefix}");
    }
    for account in ProviderAccount::ALL {
        let variables = account.base_url_variables.iter().copied();
        let keys = account.own_key_variable.into_iter();
        for variable in variables.chain(keys).chain([account.key_variable]) {
            assert!(page.contains(&format!("`{variable}`")), "{variable}");
        }
        assert!(page.contains(&format!("`[{}]`", account.table)));
    }
}

/// The tests that the security model names exist.
#[test]
fn the_tests_of_the_security_model_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join("docs/security-model.md")).unwrap();
    let words = text.split('`');
    let named = words.filter(|word| word.contains("::") && *word != "::");
    let folders = [
        "crates/cli/tests/cli",
        "crates/cli/tests/serve",
        "crates/tools/tests/tools",
        "crates/agent/tests/agent",
        "testing/durability/tests/durability",
    ];
    let mut count = 0;
    for name in named {
        count += 1;
        let (module, test) = name.split_once("::").unwrap();
        let declared = format!("fn {test}(");
        let mut files = folders
            .map(|folder| root.join(folder).join(format!("{module}.rs")))
            .into_iter();
        let is_there = files
            .any(|file| std::fs::read_to_string(file).is_ok_and(|text| text.contains(&declared)));
        assert!(is_there, "{name}");
    }
    assert!(count > 40, "{count}");
}
