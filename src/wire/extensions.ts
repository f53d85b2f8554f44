/** `_meta` keys of 2026-07-28 (basic/index, `_meta`), and what 2025-11-25 ties messages to a task with. */
export const metaKeys = {
  version: 'io.modelcontextprotocol/protocolVersion',
  capabilities: 'io.modelcontextprotocol/clientCapabilities',
  clientInfo: 'io.modelcontextprotocol/clientInfo',
  logLevel: 'io.modelcontextprotocol/logLevel',
  serverInfo: 'io.modelcontextprotocol/serverInfo',
  subscription: 'io.modelcontextprotocol/subscriptionId',
  relatedTask: 'io.modelcontextprotocol/related-task',
} as const

/** The tasks extension of 2026-07-28. */
export const tasksExtension = 'io.modelcontextprotocol/tasks'

/** The prefix of every key, method and extension the gateway invents. */
export const NS = 'dev.gatehouse'
