/** Recognises the file of a client where a configuration of the gateway is expected. */
import { isObject } from '../../core/json/json.ts'
import type { Finding } from '../problem.ts'

/** Members in which clients have their servers. */
const keys = ['mcpServers', 'mcp_servers', 'context_servers', 'amp.mcpServers', 'mcp.servers']
/** In YAML these are more likely to be a mistake for `upstreams`. */
const keysInJson = ['servers', 'mcp']

const HINT =
  'this is the configuration of an MCP client and not of the gateway: save it under another name, and run `gatehouse init --from FILE` with that name'

/** What to do with a file that is the configuration of a client. `value` is undefined if the text is no YAML. */
export function clientFileHint(value: unknown, text: string): Finding | undefined {
  const isJson = /^\s*[{/]/.test(text)
  if (isObject(value)) {
    const names = isJson ? [...keys, ...keysInJson] : keys
    const key = names.find((each) => isObject(value[each]) || Array.isArray(value[each]))
    const isOwn = key === undefined || value.upstreams !== undefined
    return isOwn ? undefined : { path: [key], at: 'key', message: HINT }
  }
  const isOfClient = isJson && /"(?:mcpServers|context_servers|servers|mcp)"\s*:/.test(text)
  return isOfClient || /^\s*\[mcp_servers\./m.test(text) ? { path: [], message: HINT } : undefined
}
