import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { namePattern, nameOfCommand, nameOfUrl, upstreamName } from '../../../src/config/names.ts'

describe('upstreamName', () => {
  test.each([
    ['GitHub MCP', 'github-mcp'],
    ['my_files', 'my-files'],
    ['42 answers', 'answers'],
    ['---', 'server'],
    ['ünïcode', 'n-code'],
    ['server-card', 'server-card-2'],
    ['gatehouse', 'gatehouse-2'],
    ['a-name-that-is-longer-than-thirty-one', 'a-name-that-is-longer-than-thir'],
  ])('upstreamName turns %j into %s', (text, name) => {
    expect(upstreamName(text)).toBe(name)
  })

  test('upstreamName numbers a name that is taken', () => {
    expect(upstreamName('Files', new Set(['files', 'files-2']))).toBe('files-3')
  })

  test('upstreamName always returns a valid name that is free', () => {
    fc.assert(
      fc.property(
        fc.array(fc.oneof(fc.string(), fc.constantFrom('a', 'A', 'x'.repeat(40))), { maxLength: 30 }),
        (texts) => {
          const taken = new Set<string>()
          for (const text of texts) taken.add(upstreamName(text, taken))
          expect(taken.size).toBe(texts.length)
          for (const name of taken) expect(name).toMatch(new RegExp(namePattern))
        },
      ),
    )
  })
})

test.each([
  ['https://mcp.linear.app/sse', 'linear'],
  ['https://api.githubcopilot.com/mcp/', 'githubcopilot'],
  ['https://example.com', 'example'],
  ['http://localhost:3000/mcp', 'localhost'],
  ['http://127.0.0.1:3000/mcp', 'server'],
  ['http://[::1]:3000/mcp', 'server'],
])('the server at %s is named %s', (url, name) => {
  expect(nameOfUrl(url)).toBe(name)
})

test.each([
  ['npx -y @modelcontextprotocol/server-filesystem@1.2.3 /srv', 'filesystem'],
  ['npx -y mcp-server-time', 'time'],
  ['uvx mcp-server-git --repository x', 'git'],
  ['npx @upstash/context7-mcp', 'context7'],
  ['node node_modules/@modelcontextprotocol/server-everything/dist/index.js', 'everything'],
  ['node ./weather.js', 'weather'],
  ['python -m weather_server', 'weather-server'],
  ['docker run -i --rm -e TOKEN ghcr.io/github/github-mcp-server', 'github'],
  ['/usr/local/bin/some-tool --stdio', 'some-tool'],
  ['C:\\tools\\thing.exe', 'thing'],
  ['npx', 'npx'],
])('the server started by %s is named %s', (line, name) => {
  expect(nameOfCommand(line.split(' '))).toBe(name)
})
