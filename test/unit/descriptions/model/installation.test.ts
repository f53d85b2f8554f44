import { describe, expect, test } from 'vitest'
import { Secret } from '../../../../src/core/text/secret.ts'
import type { CommandReach } from '../../../../src/core/settings.ts'
import { authOf, installOf, variablesOf } from '../../../../src/descriptions/model/describe-server.ts'

function command(line: string): CommandReach {
  const [first = '', ...args] = line.split(' ')
  return { kind: 'command', command: first, args, env: {} }
}

describe('the installation of a server is derived from its command line', () => {
  test.each([
    [
      'npx -y @modelcontextprotocol/server-filesystem /srv',
      { npm: '@modelcontextprotocol/server-filesystem' },
    ],
    ['npx.cmd -y some-server@1.2.3', { npm: 'some-server@1.2.3' }],
    ['npx --package=@a/b run-it', { npm: '@a/b' }],
    ['pnpm dlx some-server', { npm: 'some-server' }],
    ['uvx mcp-server-git --repository /srv', { pip: 'mcp-server-git' }],
    ['uvx --from git-tools==1.0 serve', { pip: 'git-tools==1.0' }],
    ['uv tool run mcp-server-time', { pip: 'mcp-server-time' }],
    ['docker run -i --rm -e TOKEN=abc mcp/github:1.0', { docker: 'mcp/github:1.0' }],
    ['podman run ghcr.io/a/b', { docker: 'ghcr.io/a/b' }],
    ['npx -y some-server -p 8080', { npm: 'some-server' }],
    ['npx -y some-server --package other', { npm: 'some-server' }],
    ['docker run -eTOKEN=abc --name=x mcp/github', { docker: 'mcp/github' }],
  ])('the installation is derived from %s', (line, install) => {
    expect(installOf(command(line))).toEqual(install)
  })

  test.each([
    'node /srv/server.js',
    'npx tsx server.ts',
    'npx ./local',
    'npm start',
    'uv run server.py',
    'docker compose up',
    'npx',
    '/opt/server --key abc',
    'npx -y https://example.com/a.tgz?token=abc',
    'npx --auth geheim some-server',
    'uvx --extra web some-server',
    'docker run --security-opt no-new-privileges mcp/github',
  ])('no installation is derived from %s', (line) => {
    expect(installOf(command(line))).toEqual({})
  })
})

test('variables are listed by name and never by value', () => {
  const env = { TOKEN: new Secret('geheim'), A_KEY: new Secret('auch') }
  expect(variablesOf({ ...command('x'), env })).toEqual(['A_KEY', 'TOKEN'])
})

test('the authentication of the gateway is stated by kind', () => {
  const at = (headers: Record<string, Secret>) => authOf({ kind: 'url', url: 'https://a.example', headers })
  expect(at({ authorization: new Secret('Bearer x') })).toEqual(['bearer-token'])
  expect(at({ 'x-api-key': new Secret('x') })).toEqual(['api-key'])
  expect(at({})).toEqual([])
})
