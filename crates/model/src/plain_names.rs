//! Names of tools as JSON wire formats take them.
//!
//! Our tools may be called `browser.search`, which is also what Harmony calls them. Servers behind
//! JSON take letters, digits, `_` and `-` of ASCII, and 64 of them. This is the one place that knows
//! both: whatever stands in front of it, transcript, recording or toolbox, has the tool's own name,
//! and no dialect behind it sees another one than a server takes.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use logue_message::{ChatMessage, ToolDefinition};

use crate::{BoxFuture, Event, EventSink, Provider, ProviderError, Request, Response, ToolChoice};

/// Characters of a name.
const LONGEST: usize = 64;

/// A provider that is told plain names, while everybody else says the tools' own.
///
/// A name that is plain already stays as it is. In another one everything that servers do not take
/// becomes `_`, and where that is the name of another tool, a number follows: `browser.open` is
/// `browser_open`, and `browser_open_2` where a tool is called `browser_open`. What the model calls is
/// put back by the tools of its request; a name that is none of them stays as the model said it.
pub struct PlainNames {
    inner: Arc<dyn Provider>,
}

impl PlainNames {
    /// The same provider behind plain names.
    pub fn new(inner: Arc<dyn Provider>) -> Self {
        Self { inner }
    }

    async fn ask(
        &self,
        request: &Request<'_>,
        events: EventSink<'_>,
    ) -> Result<Response, ProviderError> {
        let names = Names::of(request);
        if names.is_trivial() {
            return self.inner.complete(request, events).await;
        }
        let tools: Vec<ToolDefinition> =
            request.tools.iter().map(|tool| names.tool(tool)).collect();
        let messages: Vec<ChatMessage> = request
            .messages
            .iter()
            .map(|it| names.message(it))
            .collect();
        let choice = match request.tool_choice {
            ToolChoice::Tool(name) => ToolChoice::Tool(names.plain(name).into_owned()),
            other => other.clone(),
        };
        let asked = Request {
            messages: &messages,
            tools: &tools,
            tool_choice: &choice,
            ..request.clone()
        };
        let mut told = |event: Event| {
            events(match event {
                Event::ToolCall { index, name } => Event::ToolCall {
                    index,
                    name: names.own(name),
                },
                other => other,
            });
        };
        let mut response = self.inner.complete(&asked, &mut told).await?;
        for call in &mut response.message.tool_calls {
            call.name = names.own(std::mem::take(&mut call.name));
        }
        Ok(response)
    }
}

impl std::fmt::Debug for PlainNames {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PlainNames").finish_non_exhaustive()
    }
}

impl Provider for PlainNames {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn complete<'a>(
        &'a self,
        request: &'a Request<'a>,
        events: EventSink<'a>,
    ) -> BoxFuture<'a, Result<Response, ProviderError>> {
        Box::pin(self.ask(request, events))
    }
}

/// The names of one request that are not plain, and what stands for them.
struct Names {
    plain: BTreeMap<String, String>,
    /// Only of the tools on offer: nothing else can be called.
    own: BTreeMap<String, String>,
}

impl Names {
    /// The tools come first, in their order, so what stands for them does not change while a
    /// conversation grows.
    fn of(request: &Request<'_>) -> Self {
        let offered = request.tools.iter().map(|tool| tool.name.as_str());
        let calls = request.messages.iter().flat_map(|it| &it.tool_calls);
        let called = calls.map(|call| call.name.as_str());
        let all: Vec<&str> = offered.clone().chain(called).collect();
        let mut taken: BTreeSet<String> = all
            .iter()
            .filter(|name| is_plain(name))
            .map(|name| (*name).to_owned())
            .collect();
        let mut plain = BTreeMap::new();
        for name in all.into_iter().filter(|name| !is_plain(name)) {
            if !plain.contains_key(name) {
                let made = made_plain(name, &taken);
                taken.insert(made.clone());
                plain.insert(name.to_owned(), made);
            }
        }
        let own = offered.filter_map(|name| Some((plain.get(name)?.clone(), name.to_owned())));
        Self {
            own: own.collect(),
            plain,
        }
    }

    fn is_trivial(&self) -> bool {
        self.plain.is_empty()
    }

    fn plain<'n>(&'n self, name: &'n str) -> Cow<'n, str> {
        Cow::Borrowed(self.plain.get(name).map_or(name, String::as_str))
    }

    fn own(&self, name: String) -> String {
        self.own.get(&name).cloned().unwrap_or(name)
    }

    fn tool(&self, tool: &ToolDefinition) -> ToolDefinition {
        ToolDefinition {
            name: self.plain(&tool.name).into_owned(),
            ..tool.clone()
        }
    }

    fn message(&self, message: &ChatMessage) -> ChatMessage {
        let mut message = message.clone();
        for call in &mut message.tool_calls {
            call.name = self.plain(&call.name).into_owned();
        }
        message
    }
}

fn is_plain(name: &str) -> bool {
    let fits = |character: char| character.is_ascii_alphanumeric() || "_-".contains(character);
    !name.is_empty() && name.len() <= LONGEST && name.chars().all(fits)
}

/// A plain name that no other tool has.
fn made_plain(name: &str, taken: &BTreeSet<String>) -> String {
    let plain = |character: char| match character {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '-' => character,
        _ => '_',
    };
    let base: String = name.chars().map(plain).take(LONGEST).collect();
    let base = if base.is_empty() {
        "_".to_owned()
    } else {
        base
    };
    let mut made = base.clone();
    let mut number = 2_usize;
    while taken.contains(&made) {
        let ending = format!("_{number}");
        let kept: String = base.chars().take(LONGEST - ending.len()).collect();
        made = kept + &ending;
        number += 1;
    }
    made
}
