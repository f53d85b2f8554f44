/**
 * Which IP addresses and hosts belong to this machine, to a private network, or to the internet. Requests to URLs that
 * others name may only reach the internet, so there is one rule for all of them.
 *
 * A host name says little: what counts is the address that a connection is made to. Hosts are taken as a parsed URL has
 * them, which writes every notation of an address (decimal, octal, hexadecimal, short) in one way.
 */
import { BlockList, isIP } from 'node:net'

/**
 * What an address reaches: `public` the internet, `private` this machine or a network of its own, `reserved` anything
 * else: link-local addresses with the metadata of cloud providers, multicast, documentation, translation prefixes.
 */
export type AddressKind = 'public' | 'private' | 'reserved'

/** The kind of an IP address; `reserved` for a text that is none. */
export function addressKind(address: string): AddressKind {
  const family = isIP(address)
  // An address with a zone is valid on one link only.
  if (family === 0 || address.includes('%')) return 'reserved'
  if (within(reserved, address) || within(metadata, address)) return 'reserved'
  if (within(loopback, address) || within(local, address)) return 'private'
  // RFC 4291 §2.5: only 2000::/3 is allocated for global unicast. An IPv4-mapped address is judged as IPv4 above.
  const isAllocated = family === 4 || within(globalUnicast, address) || within(mapped, address)
  return isAllocated ? 'public' : 'reserved'
}

/** Whether an IP address is not part of the internet. */
export function isPrivateAddress(address: string): boolean {
  return addressKind(address) !== 'public'
}

/** Whether a host, as named in a URL, is only reachable from this machine. */
export function isLoopbackHost(host: string): boolean {
  const name = bareHost(host)
  return name === 'localhost' || name.endsWith('.localhost') || (isIP(name) > 0 && within(loopback, name))
}

/** Whether a host, by its name alone, belongs to this machine or a private network. */
export function isNearHost(host: string): boolean {
  const name = bareHost(host)
  if (isIP(name) > 0) return isPrivateAddress(name)
  return isLoopbackHost(name) || !name.includes('.') || /\.(local|internal|home\.arpa)$/.test(name)
}

/** Whether a URL's host is an IP address of this machine or a private network. */
export function isPrivateLiteral(host: string): boolean {
  const name = bareHost(host)
  return isIP(name) > 0 ? isPrivateAddress(name) : isLoopbackHost(name)
}

/** A host of a URL without the brackets of IPv6 and the dot of the root zone, in lower case. */
export function bareHost(host: string): string {
  return host.replaceAll(/^\[|\]$|\.$/g, '').toLowerCase()
}

function within(list: BlockList, address: string): boolean {
  return list.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4')
}

// The IANA registries of special-purpose addresses (RFC 6890 and its updates). Rules for IPv4 also apply to IPv4-mapped
// addresses.

const loopback = blockList(['127.0.0.0/8'], ['::1/128'])

const local = blockList(
  ['10.0.0.0/8', '100.64.0.0/10', '172.16.0.0/12', '192.168.0.0/16'],
  ['fc00::/7', 'fec0::/10'],
)

const reserved = blockList(
  [
    '0.0.0.0/8',
    '169.254.0.0/16',
    '192.0.0.0/24',
    '192.0.2.0/24',
    '192.88.99.0/24',
    '198.18.0.0/15',
    '198.51.100.0/24',
    '203.0.113.0/24',
    '224.0.0.0/3',
  ],
  // Protocol assignments with Teredo and benchmarking, documentation, and 6to4, which contains an IPv4 address. Networks
  // outside of 2000::/3 are reserved without being listed: ::/128, 64:ff9b::/96, 100::/64, 5f00::/16, fe80::/10, ff00::/8.
  ['2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20'],
)

/** Services of cloud providers with addresses outside of the link-local networks: Alibaba, Azure, AWS, Google. */
const metadata = blockList(
  ['100.100.100.200/32', '168.63.129.16/32'],
  ['fd00:ec2::254/128', 'fd20:ce::254/128'],
)

const globalUnicast = blockList([], ['2000::/3'])
const mapped = blockList([], ['::ffff:0:0/96'])

function blockList(four: readonly string[], six: readonly string[]): BlockList {
  const list = new BlockList()
  for (const [ranges, family] of [[four, 'ipv4'] as const, [six, 'ipv6'] as const]) {
    for (const range of ranges) {
      const [network = '', bits] = range.split('/')
      list.addSubnet(network, Number(bits), family)
    }
  }
  return list
}

/** Whether nobody else reads what is sent to a URL: it is encrypted, or stays on this machine. */
export function isConfidentialUrl(url: string): boolean {
  if (!URL.canParse(url)) return false
  const { protocol, hostname } = new URL(url)
  return protocol === 'https:' || isLoopbackHost(hostname)
}
