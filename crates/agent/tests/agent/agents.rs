//! Agents in a prompt and as tools: what they are told, where their paths count from, what they
//! may not do, and when an earlier answer will do.
#![expect(clippy::unwrap_used, reason = "a test that fails says so by panicking")]

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use logue_agent::{
    Environment, FileLoader, HostError, Model, Models, Permissions, Prompt, PromptScope,
    PromptSource, ResponseCache, load_prompt, toolbox,
};
use logue_message::{ChatMessage, ToolCall};
use logue_model::{
    BoxFuture, EventHandler, FinishReason, ModelRequest, ModelResponse, Provider, ProviderError,
};
use logue_source::DiagnosticCode;
use logue_tools::{Roots, ShellOptions};
use tempfile::TempDir;

/// A model that answers with what it was told last, and counts how often it is asked, and by how
/// many at once.
#[derive(Default)]
struct Parrot {
    asked: AtomicUsize,
    at_once: AtomicUsize,
    most_at_once: AtomicUsize,
    heard: Mutex<Vec<Vec<ChatMessage>>>,
    found: AtomicUsize,
}

impl Provider for Parrot {
    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest<'a>,
        _: EventHandler<'a>,
    ) -> BoxFuture<'a, Result<ModelResponse, ProviderError>> {
        Box::pin(async move {
            self.asked.fetch_add(1, Ordering::SeqCst);
            let now = self.at_once.fetch_add(1, Ordering::SeqCst) + 1;
            self.most_at_once.fetch_max(now, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(20)).await;
            self.at_once.fetch_sub(1, Ordering::SeqCst);
            self.heard.lock().unwrap().push(request.messages.to_vec());
            let text = request
                .messages
                .last()
                .map(ChatMessage::text)
                .unwrap_or_default();
            Ok(ModelResponse::new(
                ChatMessage::assistant(format!("<{text}>")),
                FinishReason::Stop,
            ))
        })
    }
}

struct OneModel(Arc<Parrot>);

impl Models for OneModel {
    fn find(&self, named: Option<&str>, _: &Roots) -> Result<Model, HostError> {
        self.0.found.fetch_add(1, Ordering::SeqCst);
        match named {
            Some("absent") => Err(HostError::new(
                "model_not_configured",
                "there is no such model",
            )),
            named => Ok(Model::new(self.0.clone(), "", format!("parrot {named:?}"))),
        }
    }
}

struct Stage {
    folder: TempDir,
    parrot: Arc<Parrot>,
    cache: bool,
}

impl Stage {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join("prompts").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Self {
            folder,
            parrot: Arc::default(),
            cache: false,
        }
    }

    fn environment(&self) -> Environment {
        let mut agents = Environment::new(Arc::new(OneModel(self.parrot.clone())));
        agents.max_requests = 5;
        agents
    }

    fn scope(&self) -> PromptScope {
        let prompts = self.folder.path().join("prompts");
        let roots = Arc::new(Roots::new([prompts.clone()]).unwrap());
        let cache = self.folder.path().join("cache");
        let mut agents = self.environment();
        if self.cache {
            agents.agent_responses = Some(ResponseCache::new(cache, Duration::from_hours(1)));
        }
        let world = FileLoader::new(roots, &prompts).with_file(&prompts.join("main.md"));
        PromptScope::new(world, ShellOptions::default()).with_agents(Arc::new(agents))
    }

    async fn load(&self, text: &str) -> Prompt {
        self.scope().load("main.md", text).await
    }

    fn asked(&self) -> usize {
        self.parrot.asked.load(Ordering::SeqCst)
    }
}

fn only_error(prompt: &Prompt) -> (DiagnosticCode, &str) {
    let [found] = prompt.diagnostics.as_slice() else {
        panic!("{:?}", prompt.diagnostics);
    };
    (found.code, &found.message)
}

#[tokio::test]
async fn an_agent_works_in_its_own_folder_and_its_last_words_take_its_place() {
    let stage = Stage::new(&[
        (
            "a/agent.chatmd",
            "<system><doc src=\"rules.txt\" local/></system>",
        ),
        ("a/rules.txt", "own rules"),
        ("rules.txt", "the caller's rules"),
        ("input.txt", "data"),
    ]);
    let prompt = stage
        .load("<user>It says <agent src=\"a/agent.chatmd\" local>use <doc src=\"input.txt\" local/></agent>.</user>")
        .await;
    assert_eq!(prompt.diagnostics, []);
    assert_eq!(prompt.messages[0].text(), "It says <use data>.");
    let heard = stage.parrot.heard.lock().unwrap();
    let texts: Vec<String> = heard[0].iter().map(ChatMessage::text).collect();
    assert_eq!(texts, ["own rules", "use data"]);
}

#[tokio::test]
async fn agents_that_do_not_depend_on_one_another_run_at_once_and_keep_their_places() {
    let stage = Stage::new(&[("a.chatmd", "<config model=\"m\"/>")]);
    let agents: Vec<String> = (0..6)
        .map(|number| format!("<agent src=\"a.chatmd\" local>{number}</agent>"))
        .collect();
    let agents = agents.concat();
    let prompt = stage.load(&format!("<user>{agents}</user>")).await;
    assert_eq!(prompt.messages[0].text(), "<0><1><2><3><4><5>");
    let most = stage.parrot.most_at_once.load(Ordering::SeqCst);
    assert!((2..=4).contains(&most), "{most}");
}

#[tokio::test]
async fn an_answer_is_repeated_until_anything_that_led_to_it_changes() {
    let mut stage = Stage::new(&[
        ("a.chatmd", "<system><import src=\"rules.md\"/></system>"),
        ("rules.md", "one"),
    ]);
    stage.cache = true;
    let text = "<user><agent src=\"a.chatmd\" local>x</agent></user>";
    stage.load(text).await;
    stage.load(text).await;
    assert_eq!(stage.asked(), 1);
    // Another input, another rule, another setting: three other questions.
    stage.load(&text.replace(">x<", ">y<")).await;
    assert_eq!(stage.asked(), 2);
    let prompts = stage.folder.path().join("prompts");
    fs::write(prompts.join("rules.md"), "two").unwrap();
    stage.load(text).await;
    assert_eq!(stage.asked(), 3);
    fs::write(prompts.join("a.chatmd"), "<config temperature=\"1\"/>").unwrap();
    stage.load(text).await;
    assert_eq!(stage.asked(), 4);
    // What tools find may change without a trace in the question.
    fs::write(prompts.join("a.chatmd"), "<tool name=\"read_file\"/>").unwrap();
    stage.load(text).await;
    stage.load(text).await;
    assert_eq!(stage.asked(), 6);
    stage.cache = false;
    fs::write(prompts.join("a.chatmd"), "<config temperature=\"1\"/>").unwrap();
    stage.load(text).await;
    assert_eq!(stage.asked(), 7);
}

#[tokio::test]
async fn an_answer_counts_for_its_lifetime() {
    let folder = tempfile::tempdir().unwrap();
    let cache = ResponseCache::new(folder.path().join("new"), Duration::from_hours(1));
    assert_eq!(cache.get("key"), None);
    cache.put("key", "answer");
    assert_eq!(cache.get("key").as_deref(), Some("answer"));
    let expired = ResponseCache::new(folder.path().join("new"), Duration::ZERO);
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert_eq!(expired.get("key"), None);
}

#[tokio::test]
async fn what_is_wrong_with_an_agent_is_an_error_where_it_is_named() {
    let stage = Stage::new(&[
        ("open.chatmd", "<system>ok</system>\n<user>"),
        (
            "self.chatmd",
            "<user><agent src=\"self.chatmd\" local>x</agent></user>",
        ),
        (
            "caller.chatmd",
            "<user><agent src=\"main.md\" local>x</agent></user>",
        ),
        ("main.md", "<user>never read</user>"),
        ("model.chatmd", "<config model=\"absent\"/>"),
        ("mute.chatmd", "<system>nothing</system>"),
    ]);
    for (element, reason) in [
        (
            "<agent src=\"gone.chatmd\" local>x</agent>",
            "gone.chatmd: not found",
        ),
        (
            "<agent src=\"../../etc/passwd\" local>x</agent>",
            "outside the directories",
        ),
        ("<agent src=\"https://x/y\">x</agent>", "the network is off"),
        (
            "<agent src=\"open.chatmd\" local>x</agent>",
            "open.chatmd:2:1: `<user>` is never closed (E-MD-UNCLOSED-TAG)",
        ),
        ("<agent src=\"self.chatmd\" local>x</agent>", "calls itself"),
        (
            "<agent src=\"caller.chatmd\" local>x</agent>",
            "calls itself",
        ),
        (
            "<agent src=\"model.chatmd\" local>x</agent>",
            "there is no such model",
        ),
        ("<agent src=\"mute.chatmd\" local/>", "agent input is empty"),
    ] {
        let prompt = stage.load(&format!("<user>{element}</user>")).await;
        let (code, message) = only_error(&prompt);
        let expected = if element.contains("https") {
            DiagnosticCode::NetworkDenied
        } else {
            DiagnosticCode::MdAgentFailed
        };
        assert_eq!(code, expected, "{element}");
        assert!(message.contains(reason), "{element}: {message}");
        assert_eq!(prompt.diagnostics[0].primary.start, 6);
    }
    assert_eq!(stage.asked(), 0);
}

#[tokio::test]
async fn an_agent_as_a_tool_has_a_fresh_history_and_says_what_failed() {
    let stage = Stage::new(&[
        ("helper.chatmd", "<system>You help.</system>"),
        ("gone.chatmd", "<system>You are removed.</system>"),
        (
            "main.md",
            "<tool name=\"helper\" agent=\"helper.chatmd\" local description=\"Helps\"/>\
             <tool name=\"gone\" agent=\"gone.chatmd\" local/>\
             <tool name=\"again\" agent=\"main.md\" local/>\
             <user>hello</user>",
        ),
    ]);
    let prompts = stage.folder.path().join("prompts");
    let text = fs::read_to_string(prompts.join("main.md")).unwrap();
    let prompt = stage.load(&text).await;
    fs::remove_file(prompts.join("gone.chatmd")).unwrap();
    let toolbox = toolbox(&prompt, &stage.scope(), &Permissions::new())
        .await
        .unwrap();
    let told: Vec<(&str, &str)> = toolbox
        .definitions()
        .iter()
        .map(|tool| (tool.name.as_str(), tool.description.as_str()))
        .collect();
    assert_eq!(
        told,
        [
            ("helper", "Helps"),
            ("gone", "Asks the agent gone.chatmd and gives its answer."),
            ("again", "Asks the agent main.md and gives its answer."),
        ]
    );
    for _ in 0..2 {
        let call = ToolCall::new("c", "helper", "{\"input\": \"do it\"}");
        let outcome = toolbox.call(&call).await;
        assert_eq!((outcome.ok, outcome.text.as_str()), (true, "<do it>"));
    }
    assert_eq!(stage.asked(), 2);
    assert_eq!(stage.parrot.heard.lock().unwrap()[1].len(), 2);
    for (name, arguments, reason) in [
        (
            "gone",
            "{\"input\": \"x\"}",
            "E-MD-AGENT-FAILED: gone.chatmd: not found",
        ),
        ("helper", "{\"input\": 3}", "E-CALL-SCHEMA"),
        ("helper", "{}", "E-CALL-SCHEMA"),
        ("helper", "no json", "E-CALL-SCHEMA"),
    ] {
        let outcome = toolbox.call(&ToolCall::new("c", name, arguments)).await;
        assert!(
            !outcome.ok && outcome.text.contains(reason),
            "{}",
            outcome.text
        );
    }
    // A model may ask its own prompt again; only so deep.
    let outcome = toolbox
        .call(&ToolCall::new("c", "again", "{\"input\": \"x\"}"))
        .await;
    assert!(outcome.ok, "{}", outcome.text);
}

#[tokio::test]
async fn a_picture_is_sent_as_what_it_is_and_nothing_else_is() {
    let stage = Stage::new(&[("words.png", "no picture")]);
    let prompts = stage.folder.path().join("prompts");
    fs::write(prompts.join("dot.gif"), b"GIF89a\x01\x00").unwrap();
    let prompt = stage
        .load("<user><img src=\"dot.gif\" local/></user>")
        .await;
    assert_eq!(prompt.diagnostics, []);
    let json = prompt.messages[0].to_json().to_string();
    assert!(
        json.contains("image/gif") && json.contains("R0lGODlhAQA="),
        "{json}"
    );
    let prompt = stage
        .load("<user><img src=\"words.png\" local/></user>")
        .await;
    assert!(
        only_error(&prompt).1.contains("is not a PNG"),
        "{:?}",
        prompt.diagnostics
    );
}

#[tokio::test]
async fn agents_that_call_agents_are_not_prepared_once_no_request_is_left() {
    let asks = |agent: &str| {
        let asks = (0..12).map(|n| format!("<agent src=\"{agent}\" local>question {n}</agent>"));
        format!("<user>{}</user>\n", asks.collect::<Vec<_>>().join("\n"))
    };
    let stage = Stage::new(&[
        ("p.md", &asks("a.md")),
        ("a.md", &asks("b.md")),
        ("b.md", &asks("c.md")),
        ("c.md", "<system>Help.</system>"),
    ]);
    let prompt = PromptSource::read(&stage.folder.path().join("prompts/p.md")).unwrap();
    drop(load_prompt(&stage.environment(), &prompt).await);
    assert_eq!(stage.asked(), 5);
    // Each agent is prepared with its model; there are 12 * 12 * 12 at the greatest depth.
    let found = stage.parrot.found.load(Ordering::SeqCst);
    assert!(found < 400, "{found} agents were prepared");
}
