import { directPeers } from '../../support/direct/peers.ts'
import { describeSameAsDirect } from '../../support/direct/same.ts'

describeSameAsDirect(directPeers, { isWhole: true })
