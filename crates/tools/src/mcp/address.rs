//! Server addresses as prompts write them: `stdio:COMMAND` or a URL.

use crate::server_words::server_words;
use crate::{ToolServerError, ToolServerErrorKind};

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// A program and its arguments, started without a shell.
    Command(Vec<String>),
    /// A server over HTTP.
    Http(String),
}

impl Address {
    /// Parses an address.
    ///
    /// # Errors
    /// Returns an error with the expected form if the text is not a server address.
    pub(crate) fn parse(text: &str) -> Result<Self, ToolServerError> {
        let text = text.trim();
        if let Some(command) = text.strip_prefix("stdio:") {
            let words = server_words(command).map_err(|why| fault(format!("`{text}`: {why}")))?;
            if words.first().is_none_or(String::is_empty) {
                return Err(fault(format!("`{text}` names no command")));
            }
            return Ok(Self::Command(words));
        }
        let scheme = text.split_once("://").map(|(scheme, _)| scheme);
        let scheme = scheme.map(str::to_ascii_lowercase);
        match scheme.as_deref() {
            Some("http" | "https") => Ok(Self::Http(text.to_owned())),
            Some("mcp+http" | "mcp+https") => Ok(Self::Http(
                text.get("mcp+".len()..).unwrap_or_default().to_owned(),
            )),
            _ => Err(fault(format!(
                "`{text}` is not an address of an MCP server"
            ))),
        }
    }

    /// Returns a short name: the program without its extension, or the host.
    pub(crate) fn short(&self) -> String {
        let word = match self {
            Self::Command(words) => {
                let program = words.first().map(String::as_str).unwrap_or_default();
                let name = program.rsplit(['/', '\\']).next().unwrap_or_default();
                name.split('.').next().unwrap_or_default()
            }
            Self::Http(url) => {
                let behind = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
                let host = behind.split(['/', '?', '#']).next().unwrap_or_default();
                host.rsplit_once(':').map_or(host, |(host, _)| host)
            }
        };
        let word = super::names::wire_safe(word);
        if word.is_empty() {
            "server".to_owned()
        } else {
            word
        }
    }
}

fn fault(message: String) -> ToolServerError {
    ToolServerError::new(ToolServerErrorKind::Address, message).with_help(
        "write `stdio:COMMAND ARGUMENTS…` for a program, or `https://HOST/PATH`; a word with spaces \
         requires quotes",
    )
}

#[cfg(test)]
mod tests {
    use super::Address;

    #[test]
    fn commands_are_split_into_words_as_they_are_quoted() {
        let table: &[(&str, &[&str])] = &[
            ("stdio:server", &["server"]),
            ("stdio: npx -y  thing ", &["npx", "-y", "thing"]),
            (
                "stdio:'my server' \"a b\" c\\ d",
                &["my server", "a b", "c d"],
            ),
            ("stdio:s \"\" ''", &["s", "", ""]),
            (
                "stdio:s \"a\\\"b\\\\c\\d\" 'e\\f'",
                &["s", "a\"b\\c\\d", "e\\f"],
            ),
            ("stdio:s a'b c'd $HOME;rm|x", &["s", "ab cd", "$HOME;rm|x"]),
        ];
        for (text, expected) in table {
            let expected = Address::Command(expected.iter().map(ToString::to_string).collect());
            assert_eq!(Address::parse(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn addresses_of_http_lose_only_the_prefix_that_says_what_they_are() {
        for (text, expected) in [
            ("https://tools.example/mcp", "https://tools.example/mcp"),
            (
                "mcp+http://localhost:8080/x?y=1",
                "http://localhost:8080/x?y=1",
            ),
            ("MCP+HTTPS://Host/", "HTTPS://Host/"),
        ] {
            assert_eq!(
                Address::parse(text).unwrap(),
                Address::Http(expected.to_owned())
            );
        }
    }

    #[test]
    fn what_is_no_address_is_refused_with_how_addresses_are_written() {
        for text in [
            "",
            "server",
            "stdio:",
            "stdio:  ",
            "stdio:''",
            "stdio:a 'b",
            "stdio:a \\",
            "ftp://x",
            "stdio:a\0b",
        ] {
            let error = Address::parse(text).unwrap_err();
            assert!(error.help.unwrap().contains("stdio:COMMAND"), "{text}");
        }
    }

    #[test]
    fn servers_have_a_short_name_that_depends_on_nothing_but_the_address() {
        for (text, short) in [
            ("stdio:/opt/bin/git-server.py --x", "git-server"),
            ("stdio:'c:\\tools\\my tool.exe'", "my_tool"),
            ("https://tools.acme.dev:8443/mcp", "tools_acme_dev"),
        ] {
            assert_eq!(Address::parse(text).unwrap().short(), short);
        }
    }
}
