import type { Gateway } from './gateway.ts'
import { baselines } from './named/baselines.ts'
import { contextForge } from './named/contextforge.ts'
import { gatehouses } from './named/gatehouse.ts'
import { rustGateway } from './named/joshrotenberg-mcp-proxy.ts'
import { npmGateways } from './named/npm.ts'

/** The gateways that are compared, in the order of tables. One more is a file in `named` and a line here. */
export const gateways: readonly Gateway[] = [
  ...baselines,
  ...gatehouses,
  rustGateway,
  contextForge,
  ...npmGateways,
]
