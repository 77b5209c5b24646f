//! Addresses of machines: one name for each, however it is written, and whether it is near.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether an address is this machine's, or one of its own network: nothing that the whole world could reach.
pub fn is_local(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_local_v4(address),
        IpAddr::V6(address) => {
            let [first, ..] = address.segments();
            address.is_loopback()
                || address.is_unspecified()
                || address.is_multicast()
                || address.is_unique_local()
                || address.is_unicast_link_local()
                // Site-local, long deprecated, still routed by some.
                || first & 0xffc0 == 0xfec0
                || carried(address).is_some_and(is_local_v4)
        }
    }
}

fn is_local_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_multicast()
        // This network, shared by providers, protocols, benchmarks, reserved.
        || a == 0
        || (a == 100 && b & 0xc0 == 64)
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && b & 0xfe == 18)
        || a >= 240
}

/// The old address inside a new one: compatible, through a translator, or through a tunnel.
fn carried(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let old = |high: u16, low: u16| Some(Ipv4Addr::from(u32::from(high) << 16 | u32::from(low)));
    match address.segments() {
        [0, 0, 0, 0, 0, 0, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => {
            old(high, low)
        }
        _ => None,
    }
}

/// Whether the name of a server, or its address, is one of this machine for itself.
pub(super) fn is_here(name: &str) -> bool {
    let here = |address: IpAddr| address.is_loopback() || address.is_unspecified();
    let address = name.trim_matches(['[', ']']).parse::<IpAddr>();
    name == "localhost" || name.ends_with(".localhost") || address.is_ok_and(|address| here(address.to_canonical()))
}

/// The one name of an address, as it stands in a web address.
pub(crate) fn name_of(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_and_far() {
        for (address, expect) in [
            ("127.0.0.1", true),
            ("127.8.9.1", true),
            ("0.0.0.0", true),
            ("0.1.2.3", true),
            ("10.1.2.3", true),
            ("172.16.0.1", true),
            ("172.32.0.1", false),
            ("192.168.1.1", true),
            ("169.254.169.254", true),
            ("100.64.0.1", true),
            ("100.128.0.1", false),
            ("198.18.0.1", true),
            ("224.0.0.1", true),
            ("255.255.255.255", true),
            ("8.8.8.8", false),
            ("192.0.1.1", false),
            ("::", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("::ffff:8.8.8.8", false),
            ("::127.0.0.1", true),
            ("64:ff9b::127.0.0.1", true),
            ("64:ff9b::8.8.8.8", false),
            ("2002:7f00:1::", true),
            ("fe80::1", true),
            ("fec0::1", true),
            ("fc00::1", true),
            ("fd12::1", true),
            ("ff02::1", true),
            ("2606:4700::1111", false),
        ] {
            assert_eq!(is_local(address.parse().unwrap()), expect, "{address}");
        }
    }
}
