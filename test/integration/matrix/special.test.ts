// The subjects of the matrix that need other servers, clients or settings: one set-up for those that can share it. To run one
// subject: `-t matrix/lists`.
import { describe } from 'vitest'
import { describePairs, type Kind } from '../../support/matrix.ts'
import {
  acceptance,
  hasSessionStream,
  isRemote,
  lacked,
  lackedCapabilities,
  questionsOfSession,
} from './capabilities.ts'
import { unchangedErrors } from './errors.ts'
import { lists, pagedServer } from './lists.ts'
import { missingCapabilities, rootsRequestedFirst } from './refusals.ts'

describe('for a client that answers nothing, and a server that lists pages and requests roots at first', () => {
  const server = (kind: Kind) => ({ ...pagedServer(kind), asksRoots: true })
  describePairs({ server, upstream: { roots: 'client' } }, [lists, missingCapabilities, rootsRequestedFirst])
})

describe('for an upstream without features', () => {
  describePairs({ upstream: { features: 'none' } }, [unchangedErrors])
})

describe('for a server without subscriptions and logging', () => {
  describePairs({ server: () => ({ without: lacked }), only: isRemote }, [lackedCapabilities])
})

describe('for a server that asks on the stream of the session', () => {
  const server = () => ({ questions: 'get' }) as const
  const client = () => ({ answers: acceptance })
  describePairs({ server, client, only: hasSessionStream }, [questionsOfSession])
})
