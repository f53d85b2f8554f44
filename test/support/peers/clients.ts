import type { PeerClient, Way } from './client.ts'
import { connectSdk1 } from './sdk1.ts'
import { connectSdk2 } from './sdk2.ts'

/** A kind of client, and how it connects. */
export interface PeerKind {
  readonly title: string
  readonly transport: Way['transport']
  readonly era: 'legacy' | 'modern'
  connect(way: Way): Promise<PeerClient>
}

/** The official SDK clients, over every transport the gateway offers. */
export const peerKinds: readonly PeerKind[] = [
  ...(['http', 'sse', 'stdio'] as const).map((transport) => sdk1(transport)),
  ...(['http', 'stdio'] as const).flatMap((transport) => [
    sdk2('legacy', transport),
    sdk2('auto', transport),
    sdk2('pinned', transport),
  ]),
]

/** One client of each era over HTTP. */
export const bothEras: readonly PeerKind[] = [sdk1('http'), sdk2('legacy', 'http'), sdk2('pinned', 'http')]

function sdk1(transport: Way['transport']): PeerKind {
  return { title: `SDK 1.x over ${transport}`, transport, era: 'legacy', connect: connectSdk1 }
}

function sdk2(mode: 'legacy' | 'auto' | 'pinned', transport: Way['transport']): PeerKind {
  const title = `SDK 2.x (${mode}) over ${transport}`
  const negotiation = mode === 'pinned' ? { pin: '2026-07-28' } : mode
  const era = mode === 'legacy' ? 'legacy' : 'modern'
  return { title, transport, era, connect: (way) => connectSdk2(way, negotiation) }
}
