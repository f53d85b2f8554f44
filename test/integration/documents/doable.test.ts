// Instructions contain only what a model can do: the tools they name are listed, the resources they name can be read. The
// guide names the tools for its advice, and marks the unlisted ones.
import { describe, expect, test } from 'vitest'
import { connect } from '../../support/fake-client.ts'
import { localGateway } from '../../support/local-gateway.ts'
import { scriptedServer } from '../../support/scripted-server.ts'
import { type Json, objectAt } from '../../support/server/json.ts'

const tools = [
  { name: 'create_note', description: 'Creates a note.', inputSchema: { type: 'object' } },
  {
    name: 'delete_note',
    description: 'Deletes a note.',
    inputSchema: { type: 'object', properties: { id: { type: 'string' } }, required: ['id'] },
  },
]
const undo = { create_note: { undo: 'delete_note(id=$.result.id)' } }
/** A configuration, the advice of its guide, and whether neither the guide nor a skill is listed. */
type Way = readonly [what: string, config: Json, advice: RegExp, isSilent: boolean]
const ways: readonly Way[] = [
  ['by default', {}, /unlisted tools `begin_transaction`/, true],
  ['with listed skills', { features: { skills: { listed: true } } }, /unlisted tools/, false],
  ['with listed meta tools', { meta_tools: 'listed' }, /call `begin_transaction`/, false],
  ['with a listed guide', { features: { help: { listed: true } } }, /unlisted tools/, false],
  ['without meta tools', { meta_tools: 'off' }, /`transaction\/begin`/, true],
  ['without skills', { features: { skills: 'off' } }, /unlisted tools/, true],
  ['without guides', { features: { skills: 'off', help: 'off' } }, /^$/, true],
]

describe.each(ways)('the guide of a gateway %s', (_what, config, advice, isSilent) => {
  test.each(['', '/notes', '/others'])(
    'instructs a model at /mcp%s to do only what is possible',
    async (path) => {
      const server = await scriptedServer({ tools: {} }, { 'tools/list': () => ({ tools }) })
      const upstreams = { notes: { url: server.url, tools: undo }, others: { url: server.url } }
      const gateway = await localGateway({ ...config, upstreams })
      const client = await connect({ transport: 'http', url: gateway.url + path, revision: '2026-07-28' })
      const said = String((await client.request('server/discover')).result?.['instructions'])
      const named = [...said.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name)
      const listed = await client.request('tools/list')
      const names = [listed.result?.['tools']].flat().map((tool) => Object(tool).name)
      for (const name of named) {
        if (name.startsWith('skill:')) {
          const { result } = await client.request('resources/read', { uri: name })
          expect(JSON.stringify(result?.['contents'])).toContain('# ')
          expect(JSON.stringify(await client.request('resources/list'))).toContain(name)
        } else expect(names).toContain(name)
      }
      expect(named).toHaveLength(isSilent ? 0 : 1)
      const guide = await client.request('ai_help', { section: 'bestPractices' })
      const text = guide.error === undefined ? JSON.stringify(objectAt({ ...guide }, 'result')) : ''
      if (path !== '/others') expect(text).toMatch(advice)
      if (!names.includes('ai_help')) expect(text).not.toContain('`ai_help`')
      await client.close()
      await gateway.close()
      await server.close()
    },
  )
})
