//! An agent with a tool that requires approval: `approved-tool TEXT…` or `--approve SIGNAL`.
use logue_agent::{Agent, Permission, approval_payload};
use logue_harness::chat::{ChatTurnOutcome as Outcome, SignalTarget::Signal};
use logue_message::ChatMessage;
use logue_model::{EndpointOptions, HttpProvider, WireFormat};
use logue_tools::FnTool;
use std::{env, error::Error, fs, io, sync::Arc};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Deploy {
    service: String,
}

async fn deploy(args: Deploy) -> io::Result<&'static str> {
    let log = fs::read_to_string("deployed.log").unwrap_or_default();
    fs::write("deployed.log", log + &args.service + "\n").map(|()| "deployed")
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut options = EndpointOptions::new(env::var("OPENAI_BASE_URL")?);
    options.api_key = env::var("OPENAI_API_KEY").ok();
    let model = HttpProvider::new(WireFormat::Chat, options)?;
    let agent = Agent::builder(Arc::new(model), "gpt-5-mini")
        .system("You deploy services.")
        .tool(FnTool::new("deploy", "Deploys a service.", deploy))
        .permission("deploy", Permission::Ask)
        .build()?;
    let chat = agent.sessions(logue_store::open_store("sqlite:chat.db")?)?;
    let words = env::args().skip(1).collect::<Vec<_>>().join(" ");
    let outcome = if let Some(signal) = words.strip_prefix("--approve ") {
        chat.signal(Signal(signal), approval_payload(true)).await?
    } else {
        chat.send("main", ChatMessage::user(words)).await
    };
    let text = match outcome {
        Outcome::Completed(turn) => turn.replies.last().map(ChatMessage::text),
        Outcome::Suspended(turn) => Some(turn.signal_descriptor.signal_id),
        Outcome::Errored(turn) => return Err(turn.diagnostic.into()),
    };
    println!("{}", text.unwrap_or_default());
    Ok(())
}
