//! Routes that are registered together with their methods.

use axum::Router;
use axum::handler::Handler;
use axum::routing::{delete, get, post};

use super::api::Api;

/// The routes of a server with the list of them.
#[derive(Default)]
pub(crate) struct RouteTable {
    router: Router<Api>,
    listed: Vec<(&'static str, &'static str)>,
}

impl RouteTable {
    /// Adds a route of the method GET, which answers HEAD as well.
    pub(crate) fn get<H: Handler<T, Api>, T: 'static>(
        mut self,
        path: &'static str,
        handler: H,
    ) -> Self {
        self.listed.push(("get", path));
        self.router = self.router.route(path, get(handler));
        self
    }

    /// Adds a route of the method POST.
    pub(crate) fn post<H: Handler<T, Api>, T: 'static>(
        mut self,
        path: &'static str,
        handler: H,
    ) -> Self {
        self.listed.push(("post", path));
        self.router = self.router.route(path, post(handler));
        self
    }

    /// Adds a route of the method DELETE.
    pub(crate) fn delete<H: Handler<T, Api>, T: 'static>(
        mut self,
        path: &'static str,
        handler: H,
    ) -> Self {
        self.listed.push(("delete", path));
        self.router = self.router.route(path, delete(handler));
        self
    }

    /// Returns the routes.
    pub(crate) fn into_router(self) -> Router<Api> {
        self.router
    }

    /// Returns the methods and paths.
    #[cfg(test)]
    pub(crate) fn listed(&self) -> &[(&'static str, &'static str)] {
        &self.listed
    }
}
