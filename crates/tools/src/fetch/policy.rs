//! Allowed hosts and request limits.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use reqwest::Url;

/// The hosts and limits of fetching. The default allows no host.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FetchPolicy {
    /// The allowed hosts; all others are refused, also after a redirect.
    pub hosts: Vec<HostRule>,
    /// Maximum number of redirects of one request.
    pub max_redirects: usize,
    /// Time limit of connecting.
    pub connect: Duration,
    /// Time limit of the request, with redirects and body.
    pub total: Duration,
    /// Maximum size of the body in bytes, both received and decompressed.
    pub max_bytes: usize,
}

impl Default for FetchPolicy {
    fn default() -> Self {
        Self {
            hosts: Vec::new(),
            max_redirects: 5,
            connect: Duration::from_secs(10),
            total: Duration::from_secs(30),
            max_bytes: 5 * 1024 * 1024,
        }
    }
}

impl FetchPolicy {
    /// Creates a policy with default limits for the hosts of these rules.
    ///
    /// # Errors
    /// Returns an error for the first invalid rule.
    pub fn allowing<I>(rules: I) -> Result<Self, HostRuleError>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let rules = rules.into_iter();
        Ok(Self {
            hosts: rules
                .map(|rule| rule.as_ref().parse())
                .collect::<Result<_, _>>()?,
            ..Self::default()
        })
    }

    /// Sets the allowed hosts.
    #[must_use]
    pub fn with_hosts(mut self, hosts: Vec<HostRule>) -> Self {
        self.hosts = hosts;
        self
    }

    /// Sets the maximum number of redirects of one request.
    #[must_use]
    pub const fn with_max_redirects(mut self, max_redirects: usize) -> Self {
        self.max_redirects = max_redirects;
        self
    }

    /// Sets the time limit of connecting.
    #[must_use]
    pub const fn with_connect(mut self, connect: Duration) -> Self {
        self.connect = connect;
        self
    }

    /// Sets the time limit of the request, with redirects and body.
    #[must_use]
    pub const fn with_total(mut self, total: Duration) -> Self {
        self.total = total;
        self
    }

    /// Sets the maximum size of the body in bytes.
    #[must_use]
    pub const fn with_max_bytes(mut self, max_bytes: usize) -> Self {
        self.max_bytes = max_bytes;
        self
    }

    /// Returns whether an allowed host may be private, or `None` for other hosts.
    pub(crate) fn admits(&self, host: &str, port: u16, default_port: bool) -> Option<bool> {
        let fits = |rule: &&HostRule| rule.admits(host, port, default_port);
        let mut fitting = self.hosts.iter().filter(fits).peekable();
        fitting.peek()?;
        Some(fitting.any(|rule| rule.private))
    }
}

/// An allowed host, as written after `--allow-host` and in `logue.toml`.
///
/// | written | allows |
/// |---|---|
/// | `example.com` | this host on the default ports |
/// | `*.example.com` | every host below it, and not `example.com` itself |
/// | `example.com:8080`, `example.com:*` | this port, any port |
/// | `localhost`, `192.168.0.7`, `[::1]:8080` | this host, which is private by its name |
/// | `private:wiki` | a host by a name that may resolve into a private network |
///
/// A name without `private:` that resolves to a loopback, private, link-local, shared, multicast or
/// otherwise non-public address is refused.
///
/// ```
/// use logue_tools::HostRule;
///
/// let rule: HostRule = "*.Example.com".parse()?;
/// assert_eq!(rule.to_string(), "*.example.com");
/// assert!("https://example.com/".parse::<HostRule>().is_err());
/// # Ok::<(), logue_tools::HostRuleError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostRule {
    /// The host as URLs write it: lower case, punycode, brackets around IPv6.
    host: String,
    /// Whether the rule matches subdomains instead of the host.
    below: bool,
    port: Port,
    private: bool,
    /// Whether the text began with `private:`.
    said_private: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Port {
    Default,
    Any,
    Is(u16),
}

/// The error for a text that is not a host rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostRuleError {
    rule: String,
    why: &'static str,
}

impl fmt::Display for HostRuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is not a host: {}; write `example.com`, `*.example.com`, `example.com:8080` or \
             `private:wiki.local`",
            self.rule, self.why
        )
    }
}

impl std::error::Error for HostRuleError {}

impl HostRule {
    /// Returns whether the rule allows addresses in a private network.
    pub fn is_private(&self) -> bool {
        self.private
    }

    fn admits(&self, host: &str, port: u16, default_port: bool) -> bool {
        let host_fits = if self.below {
            host.strip_suffix(&self.host)
                .and_then(|before| before.strip_suffix('.'))
                .is_some_and(|before| !before.is_empty())
        } else {
            host == self.host
        };
        let port_fits = match self.port {
            Port::Default => default_port,
            Port::Any => true,
            Port::Is(allowed) => allowed == port,
        };
        host_fits && port_fits
    }
}

impl FromStr for HostRule {
    type Err = HostRuleError;

    fn from_str(rule: &str) -> Result<Self, HostRuleError> {
        let error = |why| HostRuleError {
            rule: rule.to_owned(),
            why,
        };
        let text = rule.trim();
        let (said_private, text) = match text.strip_prefix("private:") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        if text.contains(['/', '@', '?', '#', '\\', ' ']) {
            return Err(error("expected a host name and, optionally, a port"));
        }
        let (host, port) = match text.rsplit_once(':') {
            Some((_, inside)) if inside.contains(']') => (text, Port::Default),
            Some((host, "*")) => (host, Port::Any),
            Some((host, port)) => {
                let number = port.parse().ok().filter(|number| *number != 0);
                let number = number.ok_or_else(|| error("its port is not a number"))?;
                (host, Port::Is(number))
            }
            None => (text, Port::Default),
        };
        let (below, host) = match host.strip_prefix("*.") {
            Some(rest) => (true, rest),
            None => (false, host),
        };
        if host.contains('*') {
            return Err(error("a `*` stands for what is before the first dot only"));
        }
        // The URL parser normalizes the host, so that rules and URLs compare equal.
        let url =
            Url::parse(&format!("http://{host}/")).map_err(|_| error("it is not a host name"))?;
        let host = url.host_str().map(|host| host.trim_end_matches('.'));
        let host = host.filter(|host| !host.is_empty() && url.port().is_none());
        let host = host
            .ok_or_else(|| error("it is not a host name"))?
            .to_owned();
        let literal = literal(&host).is_some();
        if below && (literal || said_private || host == "localhost") {
            return Err(error("a host that may be private must be named in full"));
        }
        let private = said_private || literal || host == "localhost";
        Ok(Self {
            host,
            below,
            port,
            private,
            said_private,
        })
    }
}

impl fmt::Display for HostRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.said_private {
            f.write_str("private:")?;
        }
        if self.below {
            f.write_str("*.")?;
        }
        f.write_str(&self.host)?;
        match self.port {
            Port::Default => Ok(()),
            Port::Any => f.write_str(":*"),
            Port::Is(port) => write!(f, ":{port}"),
        }
    }
}

/// Returns the IP address that a host is, if it is not a name.
pub(crate) fn literal(host: &str) -> Option<IpAddr> {
    let inside = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    inside.unwrap_or(host).parse().ok()
}
