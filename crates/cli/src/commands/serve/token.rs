//! `logue serve token`: creates, lists and revokes access tokens.

use std::time::SystemTime;

use logue_harness::{Clock as _, SystemClock, Timestamp};
use logue_server::{AccessToken, TokenScope};
use logue_source::{escape_line, quote_word};
use serde_json::json;

use crate::arguments::{TokenCommand, TokenCreateArgs, TokenListArgs, TokenRevokeArgs};
use crate::exit::{CliError, Exit};
use crate::setup::store::new_id;
use crate::setup::token_file::TokenFile;
use crate::terminal::{ignore_broken_pipe, print, print_error};

/// The longest name of a token, in bytes.
const MAX_NAME: usize = 255;

pub(super) fn token(command: &TokenCommand) -> Result<Exit, CliError> {
    match command {
        TokenCommand::Create(arguments) => create(arguments),
        TokenCommand::List(arguments) => list(arguments),
        TokenCommand::Revoke(arguments) => revoke(arguments),
    }
}

fn create(arguments: &TokenCreateArgs) -> Result<Exit, CliError> {
    check_name(&arguments.name)?;
    let has = |scope| arguments.scope.contains(&scope);
    if has(TokenScope::Send) && has(TokenScope::Approve) {
        let message = "one token cannot both send and approve";
        return Err(CliError::new(Exit::Usage, "usage", message)
            .with_help("create two tokens: a program that sends must not approve its own calls"));
    }
    let secret = format!("logue_{}{}", new_id(), new_id()).replace('-', "");
    let now = SystemClock.now();
    let mut scopes = arguments.scope.clone();
    scopes.sort_unstable();
    scopes.dedup();
    let expiry = arguments.expires.map(|time| now.after(time));
    let token = AccessToken::new(&arguments.name, &secret, scopes, now)
        .with_agents(arguments.agents.clone())
        .with_expiry(expiry);
    TokenFile::of_user()?.change(|tokens| {
        if tokens.iter().any(|known| known.name == arguments.name) {
            let name = quote_word(&arguments.name);
            let message = format!("token `{}` exists", arguments.name);
            return Err(CliError::user("token_exists", message)
                .with_help(format!("revoke it with `logue serve token revoke {name}`")));
        }
        tokens.push(token);
        Ok(())
    })?;
    ignore_broken_pipe(print(&format!("{secret}\n")))?;
    print_error("the token is shown once; only its hash is stored\n");
    Ok(Exit::Done)
}

/// Refuses a name that a line of a log could not show.
fn check_name(name: &str) -> Result<(), CliError> {
    let is_valid =
        !name.trim().is_empty() && name.len() <= MAX_NAME && !name.chars().any(char::is_control);
    if is_valid {
        return Ok(());
    }
    let message = format!("invalid token name `{}`", escape_line(name));
    let help = format!("use 1 to {MAX_NAME} bytes without control characters");
    Err(CliError::new(Exit::Usage, "usage", message).with_help(help))
}

fn list(arguments: &TokenListArgs) -> Result<Exit, CliError> {
    let now = SystemClock.now();
    let mut text = String::new();
    for token in TokenFile::of_user()?.load()? {
        if arguments.json {
            let line = json!({"name": token.name, "scopes": token.scopes, "agents": token.agents,
                "created_at": token.created_at, "expires_at": token.expires_at,
                "expired": token.is_expired(now)});
            text.push_str(&format!("{line}\n"));
            continue;
        }
        let scopes: Vec<&str> = token.scopes.iter().map(|scope| scope.as_str()).collect();
        let ends = match token.expires_at {
            None => String::new(),
            Some(_) if token.is_expired(now) => "  expired".to_owned(),
            Some(at) => format!("  expires {}", date(Timestamp(at))),
        };
        let name = escape_line(&token.name);
        text.push_str(&format!("{name}  {}{ends}\n", scopes.join(",")));
    }
    ignore_broken_pipe(print(&text))?;
    Ok(Exit::Done)
}

fn revoke(arguments: &TokenRevokeArgs) -> Result<Exit, CliError> {
    let file = TokenFile::of_user()?;
    let is_last = file.change(|tokens| {
        let count = tokens.len();
        tokens.retain(|token| token.name != arguments.name);
        if tokens.len() == count {
            let message = format!("token `{}` not found", arguments.name);
            return Err(CliError::user("token_not_found", message)
                .with_help("`logue serve token list` lists all tokens"));
        }
        Ok(tokens.is_empty())
    })?;
    if is_last {
        let path = file.path().display().to_string();
        let path = escape_line(&path);
        print_error(&format!(
            "note: servers still require a token: create one, or remove `{path}` to serve this machine without\n"
        ));
    }
    Ok(Exit::Done)
}

fn date(at: Timestamp) -> String {
    // A date of HTTP has a year of four digits.
    let millis = at.0.min(253_402_300_799_000);
    httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + std::time::Duration::from_millis(millis))
}
