//! Classification of IP addresses as public or private.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Returns whether an address is globally reachable.
///
/// Addresses not known to be public count as private (registries of RFC 6890).
pub(crate) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let special = match address.octets() {
        // Shared between a provider and its customers.
        [100, second, ..] => (64..128).contains(&second),
        [172, second, ..] => (16..32).contains(&second),
        // This network, private networks, loopback, link-local, multicast and reserved; then
        // protocols, relays, documentation and benchmarks.
        [0 | 10 | 127 | 224..=255, ..]
        | [169, 254, ..]
        | [192, 168, ..]
        | [192, 0, 0 | 2, _]
        | [192, 88, 99, _]
        | [198, 51, 100, _]
        | [198, 18 | 19, ..]
        | [203, 0, 113, _] => true,
        _ => false,
    };
    !special
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    match address.segments() {
        // Translated: the embedded address decides.
        [0x64, 0xFF9B, 0, 0, 0, 0, high, low] => {
            let [a, b] = high.to_be_bytes();
            let [c, d] = low.to_be_bytes();
            is_public_v4(Ipv4Addr::new(a, b, c, d))
        }
        // Protocols and tunnels, some with an embedded IPv4 address; documentation.
        [0x2001, 0..=0x1FF | 0xDB8, ..] | [0x2002 | 0x3FFF, ..] => false,
        [first, ..] => first & 0xE000 == 0x2000,
    }
}
