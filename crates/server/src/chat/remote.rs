//! The address from which a request comes.

use std::net::IpAddr;

/// The address of the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Remote(pub(crate) IpAddr);

impl Remote {
    /// Returns the name under which an address is counted: one for a network of IPv6.
    ///
    /// A machine chooses among the addresses of its network.
    pub(crate) fn limit_key(self) -> String {
        match self.0.to_canonical() {
            IpAddr::V4(address) => format!("address {address}"),
            IpAddr::V6(address) if address.is_loopback() => format!("address {address}"),
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                format!("network {a:x}:{b:x}:{c:x}:{d:x}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_addresses_of_one_machine_are_counted_together() {
        let key = |text: &str| text.parse().map(|address| Remote(address).limit_key());
        assert_eq!(key("192.0.2.1"), key("::ffff:192.0.2.1"));
        assert_ne!(key("192.0.2.1"), key("192.0.2.2"));
        assert_eq!(key("2001:db8::1"), key("2001:db8::ffff:2"));
        assert_ne!(key("2001:db8::1"), key("2001:db8:0:1::1"));
    }
}
