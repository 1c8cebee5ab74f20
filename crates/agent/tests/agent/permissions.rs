//! Rules, trust, and what a prompt grants.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::Path;
use std::sync::Arc;

use logue_agent::{
    DecisionSource, FileLoader, Grant, Permission, PermissionFile, PermissionRule, PermissionRules,
    Permissions, PromptScope, PromptTrust,
};
use logue_tools::{Roots, ShellOptions};
use proptest::prelude::*;

fn rules(words: &[&str]) -> PermissionRules {
    words
        .iter()
        .map(|rule| rule.parse::<PermissionRule>().unwrap())
        .collect()
}

fn file(words: &[&str]) -> PermissionFile {
    PermissionFile::new("/etc/logue.toml".into(), rules(words))
}

fn grant(folder: &Path, name: &str) -> Grant {
    let text = std::fs::read_to_string(folder.join(name)).unwrap();
    let roots = Arc::new(Roots::new([folder.to_owned()]).unwrap());
    let world = FileLoader::new(roots, folder).with_file(&folder.join(name));
    PromptScope::new(world, ShellOptions::default()).grant(name, &text)
}

fn granted(files: &[(&str, &str)]) -> Grant {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    grant(folder.path(), files[0].0)
}

const DEPLOY: &str =
    "<tool name=\"read_file\"/>\n<tool name=\"deploy\" command=\"make deploy\"/>\n";

/// Rules of flags, of the user's file and of the project's; whether the prompt is trusted.
type Row<'a> = (
    &'a [&'a str],
    &'a [&'a str],
    &'a [&'a str],
    bool,
    Permission,
);

#[test]
fn the_first_place_that_says_something_decides() {
    use Permission::{Allow, Ask, Deny};
    let grant = granted(&[("p.md", DEPLOY)]);
    let (trusted, not) = (
        PromptTrust::trusted(&grant),
        PromptTrust::not_trusted(&grant),
    );
    let none: &[&str] = &[];
    let table: [Row<'_>; 14] = [
        (none, none, none, true, Allow),
        (none, none, none, false, Ask),
        (none, none, &["deploy=allow"], false, Ask),
        (none, none, &["deploy=deny"], true, Deny),
        (none, &["deploy=allow"], none, false, Allow),
        (none, &["deploy=allow"], &["*=ask"], true, Ask),
        (none, &["deploy=deny"], &["deploy=allow"], true, Deny),
        (none, &["deploy=ask"], &["deploy=deny"], true, Deny),
        (
            &["deploy=allow"],
            &["deploy=deny"],
            &["deploy=deny"],
            false,
            Allow,
        ),
        (&["*=ask"], &["deploy=allow"], none, true, Ask),
        (&["read*=deny"], none, none, true, Allow),
        (&["dep*=deny", "de*=allow"], none, none, true, Deny),
        (&["d*y=deny", "*ploy=allow"], none, none, true, Allow),
        (&["d*=deny", "*d*=allow"], none, none, true, Deny),
    ];
    for (flags, own, project, trust, expected) in table {
        let standing = if trust { &trusted } else { &not };
        let permissions = flags
            .iter()
            .fold(Permissions::new(), |all, rule| {
                all.with(rule.parse().unwrap())
            })
            .with_own(file(own))
            .with_project(file(project))
            .with_trust(standing.clone());
        let context = format!("{flags:?} {own:?} {project:?} {trust}");
        assert_eq!(permissions.permission("deploy"), expected, "{context}");
        let unattended = permissions.without_asking().permission("deploy");
        assert_eq!(
            unattended,
            if expected == Ask { Deny } else { expected },
            "{context}"
        );
    }
    let asked = Permissions::new().with_trust(not);
    assert_eq!(asked.decide("read_file").by, DecisionSource::Harmless);
    assert_eq!(asked.permission("a tool that a server names"), Ask);
}

#[test]
fn a_grant_is_what_is_granted_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let id = |text: &str| {
        std::fs::write(folder.path().join("p.md"), text).unwrap();
        grant(folder.path(), "p.md").id()
    };
    let base = id(DEPLOY);
    let more = "<tool name=\"apply_patch\"/>\n";
    for same in [
        &format!("<config model=\"x\"/>\n{DEPLOY}<user>Hello <doc src=\"x\" local/></user>\n"),
        "<tool name=\"deploy\" command=\" make  deploy\" description=\"Ships.\"/>\n",
        &format!("<tool name=\"search\"/>\n{DEPLOY}<tool name=\"read_dir\"/>\n"),
        &format!("{DEPLOY}<user><agent src=\"gone.md\" local/></user>\n"),
    ] {
        assert_eq!(id(same), base, "{same}");
    }
    for other in [
        &DEPLOY.replace("make deploy", "make deploy install"),
        &DEPLOY.replace("make deploy", "make%20deploy"),
        &DEPLOY.replace("\"deploy\"", "\"ship\""),
        &format!("{DEPLOY}{more}"),
        &format!("{DEPLOY}<tool mcp_server=\"stdio:x\"/>\n"),
    ] {
        assert_ne!(id(other), base, "{other}");
    }
    let forth = id(&format!("{DEPLOY}{more}"));
    assert_eq!(id(&format!("{more}{DEPLOY}")), forth);
}

#[test]
fn agents_are_followed_to_their_end() {
    let asks = |agent: &str| format!("<tool name=\"ask\" agent=\"{agent}\" local/>\n");
    let round = granted(&[("a.md", &asks("b.md")), ("b.md", &asks("a.md"))]);
    assert!(round.is_empty(), "agents that only ask grant nothing");
    let deep = granted(&[
        ("a.md", &asks("b.md")),
        (
            "b.md",
            &format!(
                "<user><agent src=\"c.md\" local>x</agent></user>\n{}",
                asks("a.md")
            ),
        ),
        ("c.md", DEPLOY),
    ]);
    assert_eq!(deep.lines().len(), 1, "{:?}", deep.lines());
    let line = &deep.lines()[0];
    assert!(line.contains("c.md: deploy: in "), "{line}");
    assert!(line.ends_with(" runs: make deploy …"), "{line}");

    // A family that never ends is cut, and what lies behind is not trusted.
    let many: Vec<(String, String)> = (0..400)
        .map(|number| {
            let tool = format!("<tool name=\"t\" command=\"run {number}\"/>\n");
            (
                format!("{number}.md"),
                format!("{tool}{}", asks(&format!("{}.md", number + 1))),
            )
        })
        .collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(name, text)| (&**name, &**text)).collect();
    let cut = granted(&many).lines().len();
    assert_eq!(cut, 257);
}

proptest! {
    #[test]
    fn patterns_are_those_of_the_shell(
        pattern in "[ab*]{0,8}",
        name in "[ab]{0,10}",
    ) {
        let expression = format!("^{}$", pattern.replace('*', ".*"));
        let expected = regex::Regex::new(&expression).unwrap().is_match(&name);
        let rules: PermissionRules = [PermissionRule::new(pattern, Permission::Ask)]
        .into_iter()
        .collect();
        prop_assert_eq!(rules.matching(&name).is_some(), expected);
    }
}
