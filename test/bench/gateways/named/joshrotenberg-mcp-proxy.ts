import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { urlOf, type Gateway } from '../gateway.ts'
import { folderOf, installCrate } from '../install.ts'

// The crate has the name of a package of npm.
const crate = { name: 'mcp-proxy', version: '0.6.0' }
const installed = { name: 'joshrotenberg-mcp-proxy', version: crate.version }

/** The gateway in Rust, with the least that its configuration needs. */
export const rustGateway: Gateway = {
  name: 'joshrotenberg-mcp-proxy',
  title: 'joshrotenberg/mcp-proxy',
  source: 'crates.io `mcp-proxy@0.6.0`',
  transport: 'http',
  configuration:
    'A configuration that names the server and nothing else: no middleware, no audit, no metrics.',
  install: () => installCrate(crate, installed.name),
  command: ({ folder, port, upstream }) => {
    const file = `${folder}/proxy.toml`
    writeFileSync(
      file,
      `
[proxy]
name = "bench"
[proxy.listen]
host = "127.0.0.1"
port = ${port}
[[backends]]
name = "bench"
transport = "http"
url = ${JSON.stringify(urlOf(upstream))}
`,
    )
    return { words: [join(folderOf(installed), 'bin', 'mcp-proxy'), '--config', file], path: '/' }
  },
}
