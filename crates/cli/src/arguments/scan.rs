//! The command line of `logue scan`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use openchatml::scan::{TokenFamilies, TokenFamily};

use crate::conversion::form::Form;

/// Find control tokens in message text
///
/// An unescaped token such as `<|im_start|>` in a message forges another message. Tokens that the file
/// itself escapes are reported as notes. Exit status 8 if unescaped tokens are found.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  logue scan data.jsonl\n  curl -s https://example.org/page | logue scan -"
)]
pub(crate) struct ScanArgs {
    /// Files and directories; `-` is standard input
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,

    /// Form of the files, `text` for plain text [default: by their names and content]
    #[arg(long, value_name = "FORM", value_parser = Form::parser_with_text())]
    pub(crate) from: Option<Form>,

    /// Search for the tokens of this model family only; may be repeated [default: all]
    #[arg(long, value_name = "FAMILY", value_parser = family_parser())]
    pub(crate) family: Vec<String>,

    /// Leave out the tokens of this model family; may be repeated
    #[arg(long, value_name = "FAMILY", value_parser = family_parser())]
    pub(crate) no_family: Vec<String>,

    /// Print JSON lines
    #[arg(long)]
    pub(crate) json: bool,
}

fn family_parser() -> PossibleValuesParser {
    PossibleValuesParser::new(TokenFamily::ALL.map(TokenFamily::name))
}

impl ScanArgs {
    /// Returns the fault of flags that contradict one another.
    pub(crate) fn contradiction(&self) -> Option<String> {
        let both = self
            .family
            .iter()
            .find(|name| self.no_family.contains(name));
        match both {
            Some(name) => Some(format!("--family {name} and --no-family {name} contradict")),
            None if self.families() == TokenFamilies::NONE => {
                Some("--no-family leaves no family to search for".to_owned())
            }
            None => None,
        }
    }

    /// Returns the families that are searched.
    pub(crate) fn families(&self) -> TokenFamilies {
        let is_wanted = |family: &TokenFamily| {
            let is_in = |names: &[String]| names.iter().any(|name| name == family.name());
            (self.family.is_empty() || is_in(&self.family)) && !is_in(&self.no_family)
        };
        let wanted = TokenFamily::ALL.into_iter().filter(is_wanted);
        wanted.fold(TokenFamilies::NONE, TokenFamilies::with)
    }
}
