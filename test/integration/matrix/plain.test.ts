// The subjects of the matrix whose settings are those of a gateway by default. Ids of requests are strings and numbers in turn,
// and older servers ping the clients, which no subject but `opening` notices. To run one: `-t matrix/calls`.
import { describePairs } from '../../support/matrix.ts'
import { calls } from './calls.ts'
import { cancel } from './cancel.ts'
import { changingRoots } from './capabilities.ts'
import { changes } from './changes.ts'
import { logs } from './logs.ts'
import { opening } from './opening.ts'
import { progress } from './progress.ts'
import { projection } from './projection.ts'
import { rootsNotForwarded } from './refusals.ts'

describePairs(
  {
    server: ({ revision }) => ({ pingClient: revision !== '2026-07-28' }),
    client: () => ({ ids: 'mixed' }),
  },
  [opening, calls, projection, progress, cancel, logs, changes, changingRoots('off'), rootsNotForwarded],
)
