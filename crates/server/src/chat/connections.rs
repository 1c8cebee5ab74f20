//! The open connections of a server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::{Notify, Semaphore};

use super::prefix::BelowPrefix;
use super::remote::Remote;
use super::server::ChatServerOptions;
use super::stalled::Stalled;

/// The size limit of the head of a request, in bytes.
const MAX_HEAD: usize = 64 * 1024;
/// The number of ended connections whose memory is worth a call of [`ChatServerOptions::give_back`].
const ENDED: usize = 128;
/// The time between the end of [`ENDED`] connections and the call.
///
/// Others end in it too.
const REST: Duration = Duration::from_secs(5);

/// The open connections of a server.
pub(crate) struct Connections {
    graceful: GracefulShutdown,
    free: Arc<Semaphore>,
    header_timeout: Duration,
    write_timeout: Duration,
    prefix: Option<Arc<str>>,
    ended: Arc<Ended>,
    give_back: Option<fn()>,
}

/// The connections that ended since memory was given back.
#[derive(Default)]
struct Ended {
    count: AtomicUsize,
    many: Notify,
}

impl Ended {
    fn add(&self) {
        if self.count.fetch_add(1, Ordering::Relaxed) + 1 == ENDED {
            self.many.notify_one();
        }
    }
}

impl Connections {
    pub(crate) fn new(options: &ChatServerOptions) -> Self {
        Self {
            graceful: GracefulShutdown::new(),
            free: Arc::new(Semaphore::new(options.max_connections)),
            header_timeout: options.header_timeout,
            write_timeout: options.write_timeout,
            prefix: options.path_prefix.as_deref().map(Arc::from),
            ended: Arc::default(),
            give_back: options.give_back,
        }
    }

    /// Accepts connections without end.
    pub(crate) async fn accept(&self, listener: &TcpListener, router: &axum::Router) {
        tokio::select! {
            () = self.accept_each(listener, router) => {}
            () = self.give_back_memory() => {}
        }
    }

    async fn accept_each(&self, listener: &TcpListener, router: &axum::Router) {
        loop {
            // The semaphore is never closed.
            let Ok(permit) = Arc::clone(&self.free).acquire_owned().await else {
                return;
            };
            let Ok((stream, address)) = listener.accept().await else {
                // The process has too many open files, for example.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            // Events are small, and must not wait for more.
            drop(stream.set_nodelay(true));
            let stream = Stalled::new(stream, self.write_timeout);
            let service = TowerToHyperService::new(router.clone());
            let service = BelowPrefix::new(service, self.prefix.clone());
            let remote = Remote(address.ip());
            let service = service_fn(move |mut request: Request<Incoming>| {
                request.extensions_mut().insert(remote);
                service.call(request)
            });
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(self.header_timeout)
                .max_buf_size(MAX_HEAD)
                .max_header_size(MAX_HEAD)
                .serve_connection(TokioIo::new(stream), service);
            let connection = self.graceful.watch(connection);
            let ended = Arc::clone(&self.ended);
            tokio::spawn(async move {
                // Clients may disconnect at any time.
                drop(connection.await);
                drop(permit);
                ended.add();
            });
        }
    }

    /// Gives the memory of ended connections back to the system, without end.
    async fn give_back_memory(&self) {
        let Some(give_back) = self.give_back else {
            return std::future::pending().await;
        };
        loop {
            self.ended.many.notified().await;
            tokio::time::sleep(REST).await;
            self.ended.count.store(0, Ordering::Relaxed);
            // A result would be of a panic.
            drop(tokio::task::spawn_blocking(give_back).await);
        }
    }

    /// Waits until the connections have ended, at most for `patience`.
    pub(crate) async fn close(self, patience: Duration) {
        drop(tokio::time::timeout(patience, self.graceful.shutdown()).await);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpStream;

    static GIVEN_BACK: Notify = Notify::const_new();

    #[tokio::test]
    async fn memory_is_given_back_after_many_connections_ended() {
        let options = ChatServerOptions::default().with_give_back(|| GIVEN_BACK.notify_one());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let open = Connections::new(&options);
        let clients = async {
            for _ in 0..ENDED {
                drop(TcpStream::connect(address).await.unwrap());
            }
            GIVEN_BACK.notified().await;
        };
        let router = axum::Router::new();
        tokio::select! {
            () = open.accept(&listener, &router) => {}
            () = clients => {}
        }
    }
}
