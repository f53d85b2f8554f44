import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { commandOf, urlOf, type Gateway } from '../gateway.ts'
import { folderOf, installNpm, type Package } from '../install.ts'

const hub: Package = { name: 'mcp-hub', version: '4.2.1' }
const supergateway: Package = { name: 'supergateway', version: '4.0.0' }
const proxy: Package = { name: 'mcp-proxy', version: '6.7.19' }

/** The program of a package, started by the Node.js that runs the benchmark. */
function program(one: Package): readonly string[] {
  return [process.execPath, join(folderOf(one), 'node_modules', '.bin', one.name)]
}

/** Gateways of the npm registry. */
export const npmGateways: readonly Gateway[] = [
  {
    name: 'mcp-hub',
    title: 'mcp-hub',
    source: 'npm `mcp-hub@4.2.1`',
    transport: 'http',
    configuration: 'A configuration that names the server.',
    notMeasured:
      'It serves its clients over HTTP with SSE alone, the transport that revision 2025-03-26 replaced; the load ' +
      'generator and the clients of the comparison speak Streamable HTTP.',
    install: () => installNpm(hub),
    command: ({ folder, port, upstream }) => {
      const file = `${folder}/config.json`
      writeFileSync(file, JSON.stringify({ mcpServers: { bench: { url: urlOf(upstream) } } }))
      return { words: [...program(hub), '--port', `${port}`, '--config', file], path: '/mcp' }
    },
  },
  {
    name: 'supergateway',
    title: 'supergateway',
    source: 'npm `supergateway@4.0.0`',
    transport: 'stdio',
    configuration:
      '`--outputTransport streamableHttp --stateful`: without sessions it starts the server anew for each request.',
    install: () => installNpm(supergateway),
    command: ({ port, upstream }) => ({
      words: [
        ...program(supergateway),
        ...['--stdio', commandOf(upstream).join(' '), '--outputTransport', 'streamableHttp', '--stateful'],
        ...['--port', `${port}`],
      ],
      path: '/mcp',
    }),
  },
  {
    name: 'mcp-proxy-npm',
    title: 'mcp-proxy (npm)',
    source: 'npm `mcp-proxy@6.7.19`',
    transport: 'stdio',
    configuration: '`--server stream`, all else as it comes.',
    install: () => installNpm(proxy),
    command: ({ port, upstream }) => ({
      words: [
        ...program(proxy),
        ...['--host', '127.0.0.1', '--port', `${port}`, '--server', 'stream', '--', ...commandOf(upstream)],
      ],
      path: '/mcp',
    }),
  },
]
