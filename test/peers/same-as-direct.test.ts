import { type DirectPeer, started } from '../support/direct/peers.ts'
import { describeSameAsDirect } from '../support/direct/same.ts'
import { buildPeers } from './toolchains.ts'

const peers = Object.entries(await buildPeers()).flatMap(([name, built]): DirectPeer[] =>
  'peer' in built
    ? [{ name: name.replace(' ', '-'), questions: [], start: () => started([...built.peer.server, 'stdio']) }]
    : [],
)

describeSameAsDirect(peers)
