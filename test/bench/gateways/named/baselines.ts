import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { commandOf, urlOf, type Gateway } from '../gateway.ts'
import { findProgram } from '../install.ts'

const own = (file: string): string => fileURLToPath(new URL(file, import.meta.url))

/** Programs that relay and know nothing of MCP, and the official SDK with nothing around it: what the others compare to. */
export const baselines: readonly Gateway[] = [
  {
    name: 'pass-through',
    title: 'node:http and undici',
    source: '`test/bench/pass-through.ts`',
    transport: 'http',
    configuration: 'Relays each request, and parses nothing.',
    command: ({ upstream }) => ({
      words: [process.execPath, own('../../pass-through.ts'), urlOf(upstream)],
      path: '/mcp',
      printsPort: true,
    }),
  },
  {
    name: 'line-mux',
    title: 'node:http and lines',
    source: '`test/bench/line-mux.ts`',
    transport: 'stdio',
    configuration: 'Writes each request as a line to the server, and finds the answer by its id.',
    command: ({ upstream }) => ({
      words: [process.execPath, own('../../line-mux.ts'), ...commandOf(upstream)],
      path: '/mcp',
      printsPort: true,
    }),
  },
  {
    name: 'sdk',
    title: 'Client and server of the TypeScript SDK',
    source: '`@modelcontextprotocol/sdk`, `test/bench/gateways/sdk-gateway.ts`',
    transport: 'http',
    configuration: 'The client passes on what the server of the SDK is asked; answers as JSON.',
    command: ({ port, upstream }) => ({
      words: [process.execPath, own('../sdk-gateway.ts'), urlOf(upstream), `${port}`],
      path: '/mcp',
    }),
  },
  {
    name: 'nginx',
    title: 'nginx',
    source: 'nginx of the system',
    transport: 'http',
    configuration: 'One worker, `proxy_pass` with connections that are kept.',
    install: () => present('nginx'),
    command: (setup) => {
      const file = `${setup.folder}/nginx.conf`
      writeFileSync(file, nginxConfig(setup.folder, setup.port, new URL(urlOf(setup.upstream)).host))
      return {
        words: [findProgram('nginx') ?? 'nginx', '-p', setup.folder, '-c', file, '-e', 'stderr'],
        path: '/mcp',
      }
    },
  },
  {
    name: 'haproxy',
    title: 'haproxy',
    source: 'haproxy of the system',
    transport: 'http',
    configuration: 'One thread, one backend with connections that are kept.',
    install: () => present('haproxy'),
    command: ({ folder, port, upstream }) => {
      const file = `${folder}/haproxy.cfg`
      writeFileSync(file, haproxyConfig(port, new URL(urlOf(upstream)).host))
      return { words: [findProgram('haproxy') ?? 'haproxy', '-db', '-f', file], path: '/mcp' }
    },
  },
]

async function present(program: string): Promise<void> {
  if (findProgram(program) === undefined) throw new Error(`${program} is not installed`)
}

function nginxConfig(folder: string, port: number, upstream: string): string {
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
  // A worker that gives up root could not write to a folder only root may enter.
  const user = process.getuid?.() === 0 ? 'user root;' : ''
  return `
${user} daemon off; worker_processes 1; pid ${folder}/nginx.pid; error_log stderr;
events { worker_connections 1024; }
http {
  access_log off; keepalive_timeout 600s; keepalive_requests 1000000000;
  ${temporary.map((name) => `${name}_temp_path ${folder}/${name};`).join(' ')}
  upstream bench { server ${upstream}; keepalive 64; keepalive_requests 1000000000; keepalive_timeout 600s; }
  server {
    listen 127.0.0.1:${port};
    location / { proxy_pass http://bench; proxy_http_version 1.1; proxy_set_header Connection ""; }
  }
}
`
}

function haproxyConfig(port: number, upstream: string): string {
  return `
global
  nbthread 1
defaults
  mode http
  timeout connect 5s
  timeout client 600s
  timeout server 600s
frontend bench
  bind 127.0.0.1:${port}
  default_backend bench
backend bench
  http-reuse always
  server bench ${upstream}
`
}
