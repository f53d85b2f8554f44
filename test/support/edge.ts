import type { Call } from '../../src/core/call.ts'
import { noProxy } from '../../src/core/proxy.ts'
import { anonymous } from '../../src/core/principal.ts'
import { loadSettings } from '../../src/config/load.ts'
import { Bodies } from '../../src/downstream/http/body.ts'
import { type Edge, Ticker } from '../../src/downstream/http/edge.ts'

const { listen, auth } = loadSettings('upstreams: { one: server }', {
  file: 'gateway.config.yaml',
  env: {},
}).settings

/** The edge of a gateway that lets everybody in. */
export const edge: Edge = {
  runtime: {
    listen,
    auth,
    proxies: noProxy,
    has: () => true,
    withTool: (call: Call) => ({ call, mirror: [] }),
    documents: [],
  },
  access: {
    check: () => undefined,
    checkProbe: () => undefined,
    allow: () => undefined,
    preflight: () => undefined,
  },
  authGate: {
    authenticate: () => anonymous,
    authenticateDocument: async () => anonymous,
    authenticateService: async () => anonymous,
    signedIn: async () => undefined,
    requireAuth: () => undefined,
    stepUp: () => undefined,
    metadata: () => undefined,
    probes: {},
  },
  prefix: '',
  ticker: new Ticker(),
  bodies: new Bodies(),
}
