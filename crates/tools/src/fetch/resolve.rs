//! Name resolution for allowed connections.

use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::public::is_public;
use crate::BoxFuture;

/// A source of the addresses of a name, by default the operating system.
pub trait Resolver: Send + Sync {
    /// Returns all addresses of a name.
    fn lookup<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

impl<T: Resolver + ?Sized> Resolver for Arc<T> {
    fn lookup<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        T::lookup(self, host)
    }
}

/// The resolver of the operating system.
#[derive(Debug)]
pub(crate) struct System;

impl Resolver for System {
    fn lookup<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((host, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// The error for a name with private addresses only.
#[derive(Debug)]
pub(crate) struct OnlyPrivate {
    pub(crate) address: IpAddr,
}

impl std::fmt::Display for OnlyPrivate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the name leads to {}, which is not public", self.address)
    }
}

impl std::error::Error for OnlyPrivate {}

/// Resolves a name once, for one connection to exactly the checked addresses.
///
/// A name that resolves differently later has no effect.
pub(crate) struct Checked {
    pub(crate) lookup: Arc<dyn Resolver>,
    /// Whether private addresses are allowed.
    pub(crate) private: bool,
}

impl Resolve for Checked {
    fn resolve(&self, name: Name) -> Resolving {
        let (lookup, private) = (Arc::clone(&self.lookup), self.private);
        Box::pin(async move {
            let found = lookup.lookup(name.as_str()).await?;
            let mut seen = HashSet::new();
            let (good, other): (Vec<IpAddr>, Vec<IpAddr>) = found
                .into_iter()
                .filter(|address| seen.insert(*address))
                .partition(|address| private || is_public(*address));
            if let (true, Some(&address)) = (good.is_empty(), other.first()) {
                return Err(OnlyPrivate { address }.into());
            }
            if good.is_empty() {
                return Err("the name leads to no address".into());
            }
            let good = good.into_iter().map(|address| SocketAddr::new(address, 0));
            Ok(Box::new(good) as Addrs)
        })
    }
}
