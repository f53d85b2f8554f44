import { BlockList, isIP } from 'node:net'

/** Whether only this machine can reach a host, named as in a URL. */
export function isLoopbackHost(host: string): boolean {
  const name = bare(host)
  return name === 'localhost' || name.endsWith('.localhost') || (isIP(name) > 0 && within(loopback, name))
}

/** Whether an IP address is of this machine or a private network. */
export function isPrivateAddress(address: string): boolean {
  return within(inner, address) || within(loopback, address)
}

/** Whether a host, by its name alone, is of this machine or a private network. */
export function isNearHost(host: string): boolean {
  const name = bare(host)
  if (isIP(name) > 0) return isPrivateAddress(name)
  return isLoopbackHost(name) || !name.includes('.') || /\.(local|internal|home\.arpa)$/.test(name)
}

/** Whether a URL's host is an address of this machine or a private network. */
export function isPrivateLiteral(host: string): boolean {
  const name = bare(host)
  return isIP(name) > 0 ? isPrivateAddress(name) : isLoopbackHost(name)
}

function bare(host: string): string {
  return host.replaceAll(/^\[|\]$|\.$/g, '').toLowerCase()
}

function within(list: BlockList, address: string): boolean {
  return list.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4')
}

const loopback = blockList(['127.0.0.0/8'], ['::1/128'])

// RFC 6890 and what came after it: networks that are not of the internet.
const inner = blockList(
  [
    '0.0.0.0/8',
    '10.0.0.0/8',
    '100.64.0.0/10',
    '169.254.0.0/16',
    '172.16.0.0/12',
    '192.0.0.0/24',
    '192.168.0.0/16',
    '198.18.0.0/15',
    '224.0.0.0/3',
  ],
  ['::/128', '64:ff9b::/96', '64:ff9b:1::/48', '2002::/16', 'fc00::/7', 'fe80::/10', 'fec0::/10', 'ff00::/8'],
)

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
