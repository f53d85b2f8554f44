/** The gateway's own prefix for `_meta` keys and extension names. */
export const NS = 'dev.gatehouse'

/** `_meta` keys of 2026-07-28 (basic/index, `_meta`). */
export const metaKeys = {
  version: 'io.modelcontextprotocol/protocolVersion',
  capabilities: 'io.modelcontextprotocol/clientCapabilities',
  clientInfo: 'io.modelcontextprotocol/clientInfo',
  logLevel: 'io.modelcontextprotocol/logLevel',
  serverInfo: 'io.modelcontextprotocol/serverInfo',
  subscription: 'io.modelcontextprotocol/subscriptionId',
} as const

/** The tasks extension of 2026-07-28. */
export const tasksExtension = 'io.modelcontextprotocol/tasks'
