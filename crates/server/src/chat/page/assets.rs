//! The files of the page, which are part of the program.

use std::io::Write as _;
use std::sync::OnceLock;

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest as _, Sha256};

use super::super::extract::PathOf;
use super::super::problem::Problem;

/// The sources of the page: its own files, and images that a message contains.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'self'; \
    frame-ancestors 'none'; require-trusted-types-for 'script'";

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

macro_rules! files {
    ($($name:literal: $kind:expr),* $(,)?) => {
        &[$(($name, $kind, include_bytes!(concat!("../../../page/", $name)))),*]
    };
}

/// The files by name, each with its type.
const FILES: &[(&str, &str, &[u8])] = files! {
    "index.html": HTML,
    "app.css": CSS,
    "icon.svg": SVG,
    "api.js": SCRIPT,
    "approval.js": SCRIPT,
    "app.js": SCRIPT,
    "composer.js": SCRIPT,
    "connection.js": SCRIPT,
    "conversation.js": SCRIPT,
    "dom.js": SCRIPT,
    "form.js": SCRIPT,
    "help.js": SCRIPT,
    "list.js": SCRIPT,
    "live.js": SCRIPT,
    "login.js": SCRIPT,
    "nodes.js": SCRIPT,
    "sidebar.js": SCRIPT,
    "stream.js": SCRIPT,
    "tools.js": SCRIPT,
    "transcript.js": SCRIPT,
};

/// A file with its compressed form.
struct Asset {
    name: &'static str,
    kind: &'static str,
    plain: &'static [u8],
    gzip: Vec<u8>,
    /// The hash of the content.
    hash: String,
}

/// Returns whether a path is a file of the page, which contains nothing of sessions.
pub(crate) fn is_file(path: &str) -> bool {
    path == "/" || path.starts_with("/page/")
}

/// `GET /`
pub(crate) async fn index(headers: HeaderMap) -> Result<Response, Problem> {
    respond("index.html", &headers)
}

/// `GET /page/{file}`
pub(crate) async fn file(
    PathOf(file): PathOf<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    respond(&file, &headers)
}

fn respond(name: &str, headers: &HeaderMap) -> Result<Response, Problem> {
    let asset = assets().iter().find(|asset| asset.name == name);
    let asset = asset.ok_or_else(|| {
        let detail = format!("the page has no file `{name}`");
        Problem::new(StatusCode::NOT_FOUND, "path_not_found", detail)
    })?;
    let is_gzip = accepts_gzip(headers);
    let mut response = if has_tag(headers, &asset.hash) {
        StatusCode::NOT_MODIFIED.into_response()
    } else if is_gzip {
        asset.gzip.as_slice().into_response()
    } else {
        asset.plain.into_response()
    };
    let is_changed = response.status() == StatusCode::OK;
    let headers = response.headers_mut();
    headers.remove(header::CONTENT_TYPE);
    if is_changed {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(asset.kind));
        if is_gzip {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
    }
    // The tag is weak, because both encodings have it.
    if let Ok(tag) = HeaderValue::from_str(&format!("W/\"{}\"", asset.hash)) {
        headers.insert(header::ETAG, tag);
    }
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        // A new version of the program has other files.
        (header::CACHE_CONTROL, "no-cache"),
        (header::VARY, "accept-encoding"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    Ok(response)
}

/// Returns the files, which are compressed at their first use.
fn assets() -> &'static [Asset] {
    static ASSETS: OnceLock<Vec<Asset>> = OnceLock::new();
    ASSETS.get_or_init(|| {
        let files = FILES.iter().map(|(name, kind, plain)| Asset {
            name,
            kind,
            plain,
            gzip: compressed(plain),
            hash: format!("{:x}", Sha256::digest(plain)).split_off(40),
        });
        files.collect()
    })
}

fn compressed(plain: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    // Writing to memory does not fail.
    drop(encoder.write_all(plain));
    encoder.finish().unwrap_or_default()
}

fn accepts_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT_ENCODING).iter();
    let mut accepted = accepted
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    accepted.any(|coding| {
        let (name, quality) = coding.split_once(';').unwrap_or((coding, "q=1"));
        let quality = quality.trim().strip_prefix("q=");
        let is_refused = quality.and_then(|quality| quality.parse::<f32>().ok()) == Some(0.0);
        name.trim().eq_ignore_ascii_case("gzip") && !is_refused
    })
}

/// Returns whether a client has a file with this hash.
fn has_tag(headers: &HeaderMap, hash: &str) -> bool {
    let tags = headers.get_all(header::IF_NONE_MATCH).iter();
    let mut tags = tags
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    tags.any(|tag| tag.trim().trim_start_matches("W/").trim_matches('"') == hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_at_most_100_kilobytes_compressed() {
        let bytes: usize = assets().iter().map(|asset| asset.gzip.len()).sum();
        println!("the page has {bytes} bytes compressed");
        assert!(bytes <= 100_000, "{bytes} bytes");
    }

    #[test]
    fn a_refused_coding_is_not_used() {
        let with = |value: &'static str| {
            let value = HeaderValue::from_static(value);
            HeaderMap::from_iter([(header::ACCEPT_ENCODING, value)])
        };
        assert!(accepts_gzip(&with("br, gzip;q=0.5")));
        assert!(!accepts_gzip(&with("gzip;q=0")));
        assert!(!accepts_gzip(&with("br")));
        assert!(!accepts_gzip(&HeaderMap::new()));
    }
}
