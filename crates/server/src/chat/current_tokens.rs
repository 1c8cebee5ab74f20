//! The tokens that are valid now, and the end of requests with other ones.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::response::Response;
use hyper::body::{Frame, SizeHint};
use logue_harness::Clock;
use tokio::sync::watch;

use super::access::{AccessToken, AccessTokens, Caller};

/// The interval at which tokens are read while no request arrives.
const LOOK: Duration = Duration::from_millis(250);
/// The error that cuts the body of a response.
const ENDED: &str = "the token of the client is revoked or expired";

/// The tokens of a server, as they are now.
pub(crate) struct CurrentTokens {
    tokens: Arc<dyn AccessTokens>,
    clock: Arc<dyn Clock>,
    /// Whether clients need no token as long as there has never been one.
    is_local: bool,
    /// Set once a token has existed.
    has_seen_token: AtomicBool,
    /// Held by a reader, so that no later tokens are replaced by earlier ones.
    reading: Mutex<()>,
    valid: watch::Sender<ValidTokens>,
}

/// The tokens that permit requests at a time.
#[derive(Clone, Default, PartialEq, Eq)]
struct ValidTokens {
    tokens: Vec<AccessToken>,
    /// Whether a client without a token is permitted.
    is_open: bool,
}

/// The tokens of a server, read for a request.
pub(crate) struct TokenRead {
    /// All tokens, expired ones as well.
    pub(crate) tokens: Vec<AccessToken>,
    /// Whether a client without a token is permitted.
    pub(crate) is_open: bool,
}

impl CurrentTokens {
    /// Returns the tokens of a server that is open without tokens, or not.
    pub(crate) fn new(
        tokens: Arc<dyn AccessTokens>,
        clock: Arc<dyn Clock>,
        is_local: bool,
    ) -> Self {
        let current = Self {
            tokens,
            clock,
            is_local,
            has_seen_token: AtomicBool::new(false),
            reading: Mutex::default(),
            valid: watch::Sender::default(),
        };
        current.read();
        current
    }

    /// Reads the tokens, and ends the requests of those that have become invalid.
    pub(crate) fn read(&self) -> TokenRead {
        let _reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let tokens = self.tokens.tokens();
        let has_token = tokens.iter().any(|token| !token.hash.is_empty());
        // A token may have come and gone since the last look.
        if has_token || self.tokens.has_had_token() {
            self.has_seen_token.store(true, Ordering::Relaxed);
        }
        let has_none = tokens.is_empty() && !self.has_seen_token.load(Ordering::Relaxed);
        let is_open = self.is_local && has_none;
        let now = self.clock.now();
        let valid = tokens.iter().filter(|token| !token.is_expired(now));
        let valid = ValidTokens {
            tokens: valid.cloned().collect(),
            is_open,
        };
        self.valid.send_if_modified(|known| {
            let has_changed = *known != valid;
            *known = valid;
            has_changed
        });
        TokenRead { tokens, is_open }
    }

    /// Reads the tokens without end, also while no request arrives.
    pub(crate) async fn watch(&self) {
        loop {
            tokio::time::sleep(LOOK).await;
            self.read();
        }
    }

    /// Returns a future that completes when the token of a caller is revoked or expires.
    pub(crate) fn end_of(&self, caller: Caller) -> impl Future<Output = ()> + Send + 'static {
        let mut valid = self.valid.subscribe();
        async move {
            let ended = valid.wait_for(|valid| !valid.permits(&caller));
            let is_unknown = ended.await.is_err();
            // The server ends, and its requests with it.
            if is_unknown {
                std::future::pending::<()>().await;
            }
        }
    }
}

impl ValidTokens {
    fn permits(&self, caller: &Caller) -> bool {
        match &caller.token_hash {
            None => self.is_open,
            Some(_) => self.tokens.iter().any(|token| caller.is_of(token)),
        }
    }
}

/// Cuts the body of a response when `end` completes.
///
/// A body whose length is known is sent at once and is not cut.
pub(crate) fn cut_at(
    response: Response,
    end: impl Future<Output = ()> + Send + 'static,
) -> Response {
    if response.body().size_hint().exact().is_some() {
        return response;
    }
    response.map(|body| {
        Body::new(CutBody {
            body,
            end: Box::pin(end),
        })
    })
}

/// The body of a response that ends with an error when its token does.
struct CutBody {
    body: Body,
    end: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl HttpBody for CutBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        task: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.end.as_mut().poll(task).is_ready() {
            self.end = Box::pin(std::future::ready(()));
            return Poll::Ready(Some(Err(axum::Error::new(ENDED))));
        }
        Pin::new(&mut self.body).poll_frame(task)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
