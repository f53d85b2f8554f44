import { describe, expect, it } from 'vitest'
import { addressKind, isLoopbackHost, isNearHost, isPrivateAddress } from '../../../src/core/address.ts'

const kinds = {
  private: [
    ['loopback', ['127.0.0.1', '127.0.0.2', '127.255.255.255', '::1', '::ffff:127.0.0.1', '::ffff:7f00:1']],
    ['networks of their own', ['10.0.0.1', '172.16.0.1', '172.31.255.255', '192.168.1.1', '::ffff:10.0.0.1']],
    ['unique local IPv6 networks', ['fc00::1', 'fd00::1', 'fdff::1', 'fec0::1']],
    ['carrier-grade NAT', ['100.64.0.1', '100.127.255.255']],
  ],
  reserved: [
    ['link-local', ['169.254.0.1', 'fe80::1', 'fe80::1%eth0', 'febf::1', '::ffff:169.254.0.1']],
    [
      'metadata of cloud providers',
      [
        '169.254.169.254',
        '169.254.170.2',
        '100.100.100.200',
        '168.63.129.16',
        '192.0.0.192',
        'fd00:ec2::254',
      ],
    ],
    ['unspecified', ['0.0.0.0', '0.1.2.3', '::']],
    ['multicast and broadcast', ['224.0.0.1', '239.255.255.255', '255.255.255.255', 'ff02::1', 'ff0e::1']],
    ['future use', ['240.0.0.1', '5f00::1', '4000::1', 'e000::1']],
    ['documentation', ['192.0.2.1', '198.51.100.1', '203.0.113.1', '2001:db8::1', '3fff::1']],
    ['benchmarks', ['198.18.0.1', '198.19.255.255', '2001:2::1']],
    [
      'IPv4 in IPv6',
      ['64:ff9b::a00:1', '64:ff9b::8.8.8.8', '64:ff9b:1::1', '2002:a00:1::', '2001::1', '::7f00:1'],
    ],
    ['other prefixes', ['::ffff:0:127.0.0.1', '100::1', '192.88.99.1', '192.0.0.1']],
    ['no address', ['', 'localhost', '127.1', '0x7f.0.0.1', '1.2.3.4.5', '[::1]']],
  ],
  public: [
    ['IPv4', ['8.8.8.8', '172.32.0.1', '172.15.0.1', '100.63.0.1', '100.128.0.1', '192.167.0.1', '1.1.1.1']],
    ['IPv6', ['2606:4700::1111', '2001:4860:4860::8888', '2a00:1450::1']],
    ['IPv4-mapped', ['::ffff:8.8.8.8']],
  ],
} as const

describe.each(Object.entries(kinds))('addresses: %s', (kind, groups) => {
  it.each(groups.flatMap(([group, addresses]) => addresses.map((address) => [group, address] as const)))(
    '%s: %s',
    (_group, address) => {
      expect(addressKind(address)).toBe(kind)
      expect(isPrivateAddress(address)).toBe(kind !== 'public')
    },
  )
})

describe('hosts', () => {
  it.each([
    ['localhost', true],
    ['mcp', true],
    ['files.internal', true],
    ['192.168.0.2', true],
    ['[::1]', true],
    ['mcp.example.com', false],
    ['8.8.8.8', false],
  ])('host %s is near: %s', (host, isNear) => expect(isNearHost(host)).toBe(isNear))

  it.each([
    ['localhost', true],
    ['api.localhost', true],
    ['localhost.', true],
    ['127.0.0.53', true],
    ['[::1]', true],
    ['localhost.example.com', false],
    ['10.0.0.1', false],
  ])('host %s is on this machine: %s', (host, isHere) => expect(isLoopbackHost(host)).toBe(isHere))
})
