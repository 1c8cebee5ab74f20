//! The images that messages of clients may contain.

use axum::http::Uri;
use logue_message::{ChatMessage, Content, ContentBlock, ImageSource};

/// Checks the images of a message of a client.
///
/// # Errors
/// Returns the reason if an image is neither inline data of an image nor at a web address.
pub(crate) fn check_images(message: &ChatMessage) -> Result<(), String> {
    let Content::Blocks(blocks) = &message.content else {
        return Ok(());
    };
    let mut blocks = blocks.iter().enumerate();
    let refused = blocks.find(|(_, block)| match block {
        ContentBlock::Image {
            source, media_type, ..
        } => !is_accepted(source, media_type.as_deref()),
        _ => false,
    });
    match refused {
        None => Ok(()),
        Some((at, _)) => Err(format!(
            "content[{at}]: an image is a URL of `http` or `https`, or `data:image/…;base64,…`"
        )),
    }
}

fn is_accepted(source: &ImageSource, media_type: Option<&str>) -> bool {
    match source {
        ImageSource::Inline(_) => media_type.is_some_and(is_image),
        ImageSource::Url(url) => is_inline_image(url) || is_of_web(url),
        _ => false,
    }
}

fn is_image(media_type: &str) -> bool {
    let kind = media_type.split_once('/');
    kind.is_some_and(|(kind, rest)| kind.eq_ignore_ascii_case("image") && !rest.is_empty())
}

fn is_inline_image(url: &str) -> bool {
    let data = url.split_once(':');
    let data = data.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("data"));
    let parts = data.and_then(|(_, data)| data.split_once(";base64,"));
    parts.is_some_and(|(media_type, _)| is_image(media_type))
}

/// Returns whether a URL names a host of the web.
///
/// Providers accept characters in its path that a strict parser refuses.
fn is_of_web(url: &str) -> bool {
    let Some((scheme, rest)) = url.split_once("://") else {
        return false;
    };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let is_web = ["http", "https"]
        .iter()
        .any(|known| scheme.eq_ignore_ascii_case(known));
    is_web && format!("{scheme}://{host}/").parse::<Uri>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_web_addresses_and_inline_images_are_accepted() {
        let accepts = |url: &str| is_accepted(&ImageSource::Url(url.to_owned()), None);
        for url in [
            "https://example.org/a b.png",
            "HTTP://example.org:8080?x",
            "data:image/png;base64,AAAA",
            "DATA:Image/SVG+xml;base64,AAAA",
        ] {
            assert!(accepts(url), "{url}");
        }
        for url in [
            "",
            "a.png",
            "file:///etc/passwd",
            "ftp://example.org/a.png",
            "https://",
            "https:///a.png",
            "javascript:alert(1)",
            "data:text/html;base64,AAAA",
            "data:image/;base64,AAAA",
            "data:image/png,AAAA",
            "data:text/html,image/png;base64,AAAA",
        ] {
            assert!(!accepts(url), "{url}");
        }
    }
}
