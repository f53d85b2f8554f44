import { describe, expect, it } from 'vitest'
import { loadSettings } from '../../../src/config/load.ts'
import { cassetteMask } from '../../../src/testkit/recorder.ts'

const { settings } = loadSettings(
  JSON.stringify({
    features: {
      mask: {
        rules: [
          { path: '$.user.mail', tools: 'get_user' },
          { pattern: String.raw`\d{3}-\d{2}-\d{4}`, replace: '[SSN]' },
        ],
      },
    },
    upstreams: {
      one: { command: 'true', env: { ONE: 'first-configured-secret' } },
      two: { url: 'https://two.example/mcp', token: 'second-configured-secret' },
    },
  }),
  { file: 'test', env: {} },
)
const mask = cassetteMask(settings, 'one', ['secret-of-a-variable'])
const call = (name: string) => ({ id: 1, method: 'tools/call', params: { name, arguments: {} } })

describe('the mask of a recording', () => {
  it('names what stands for removed values', () => {
    expect(mask.marks).toEqual(['***', '[redacted]', '[connection]', '[SSN]'])
  })

  it('applies the rules of mask to results, and patterns to arguments too', () => {
    const user = { user: { mail: 'ada@example.com', ssn: '123-45-6789' } }
    const result = { content: [{ type: 'text', text: JSON.stringify(user) }], structuredContent: user }
    const text = JSON.stringify(mask.message({ id: 1, result }, call('get_user')))
    expect(text).not.toMatch(/ada@|123-45/)
    // The path is for another tool.
    expect(JSON.stringify(mask.message({ id: 1, result }, call('other')))).toContain('ada@example.com')
    const request = {
      id: 2,
      method: 'tools/call',
      params: { name: 'find', arguments: { ssn: '123-45-6789' } },
    }
    expect(mask.message(request, request)).toEqual({
      ...request,
      params: { name: 'find', arguments: { ssn: '[SSN]' } },
    })
  })

  it('removes the secrets of all servers, also from base64', () => {
    const secrets = ['first-configured-secret', 'second-configured-secret', 'secret-of-a-variable']
    const blob = Buffer.from(`key: ${secrets[0]}`).toString('base64')
    const image = Buffer.from([0xff, 0xd8, 0xff, 0x00]).toString('base64')
    const result = {
      contents: [
        { uri: 'a:b', blob },
        { uri: 'a:c', text: secrets.join(' ') },
      ],
      data: image,
      password: 'anything',
    }
    const masked = mask.message(
      { id: 1, result },
      { id: 1, method: 'resources/read', params: { uri: 'a:b' } },
    )
    const text = JSON.stringify(masked)
    for (const secret of secrets) expect(text).not.toContain(secret)
    expect(text).not.toContain(blob)
    expect(masked).toMatchObject({ result: { data: image, password: '***', contents: [{ uri: 'a:b' }, {}] } })
  })
})
