import { isObject } from '../core/json.ts'
import { isHttpUrl, isLoopback } from './addresses.ts'
import type { Checked, Finding } from './problem.ts'
import { checkUpstream } from './upstream-checks.ts'

/**
 * Checks what a schema cannot say of a file's expanded values: how keys go together, and whether URLs and
 * directories are real. It assumes nothing of their types.
 */
export function checkTogether(value: unknown, directory: string): Checked {
  if (!isObject(value)) return { problems: [], warnings: [] }
  const upstreams = isObject(value.upstreams) ? Object.entries(value.upstreams) : []
  const checked = upstreams.map(([name, upstream]) => {
    return isObject(upstream) ? checkUpstream(upstream, ['upstreams', name], directory) : nothing
  })
  const listen = isObject(value.listen) ? value.listen : {}
  return {
    problems: [...checkListen(listen, value.auth), ...checked.flatMap(({ problems }) => problems)],
    warnings: checked.flatMap(({ warnings }) => warnings),
  }
}

const nothing: Checked = { problems: [], warnings: [] }

function checkListen(listen: Readonly<Record<string, unknown>>, auth: unknown): Finding[] {
  const problems: Finding[] = []
  const isOpen = typeof listen.host === 'string' && !isLoopback(listen.host)
  if (isOpen && auth === undefined) {
    const message =
      'everyone who can reach this address could call every tool: write `auth: none` at the top level of the file if that is meant, or listen on 127.0.0.1'
    problems.push({ path: ['listen', 'host'], message })
  }
  const origins = Array.isArray(listen.origins) ? listen.origins : [listen.origins]
  if (isOpen && origins.includes('*')) {
    const message =
      '`*` lets any web page call the tools, so it is refused on an address others can reach: list the origins'
    problems.push({ path: ['listen', 'origins'], message })
  }
  if (typeof listen.public_url === 'string' && !isHttpUrl(listen.public_url)) {
    problems.push({
      path: ['listen', 'public_url'],
      message: 'must be a URL such as https://mcp.example.com',
    })
  }
  return problems
}
