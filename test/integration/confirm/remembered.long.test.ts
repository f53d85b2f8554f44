/**
 * A confirmation that a person remembers for further calls of a tool: in the form of a client, on the page, and at the
 * command line. It applies to the session in which it was given, and to no other session of the same store.
 */
import { mkdtemp, readFile, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { approvingGateway, bearer, pageOf, peopleNamed, textIn } from '../../support/approving.ts'
import { open } from '../../support/client/raw.ts'
import { gatewayProgram } from '../../support/gateway-process.ts'
import { runCommand } from '../../support/gateway.ts'
import { configFile } from '../../support/gateway-with.ts'
import type { Way } from '../../support/peers/client.ts'
import {
  type ConfirmingClient,
  connectLegacy,
  connectModern,
  eras,
  type Person,
} from '../../support/peers/confirming.ts'
import { publishedServer } from '../../support/peers/servers.ts'

const chooses: Person = () => ({ action: 'accept', content: { confirm: true, remember: true } })
const agrees: Person = () => ({ action: 'accept', content: { confirm: true } })
const form = 'application/x-www-form-urlencoded'

function closing(client: ConfirmingClient): ConfirmingClient {
  onTestFinished(() => client.close())
  return client
}

/** The additional choice that a confirmation offers. */
function choiceIn(params: unknown): unknown {
  return Object(Object(Object(params).requestedSchema).properties).remember
}

describe.each(eras)('a client of the $title over stdio', ({ connect }) => {
  test('confirms once if its user chooses to remember, and another client of the same store still confirms', async () => {
    const folder = await realpath(await mkdtemp(join(tmpdir(), 'remembered-')))
    onTestFinished(() => rm(folder, { recursive: true, force: true }))
    const command = publishedServer('@modelcontextprotocol/server-filesystem', folder)
    // Overwrites that can be undone exactly are not asked about otherwise.
    const features = { confirm: { exact_undo: 'ask' } }
    const file = await configFile({ store: './store', features, upstreams: { files: { command } } })
    onTestFinished(() => file.remove())
    const way: Way = { transport: 'stdio', command: [...gatewayProgram(), 'stdio', '--config', file.path] }
    const paths = ['a', 'b'].map((name) => join(folder, name))
    for (const path of paths) await writeFile(path, 'before')

    const client = closing(await connect(way, chooses))
    for (const path of paths) await client.call('write_file', { path, content: 'after' })
    expect(client.asked).toHaveLength(1)
    expect(choiceIn(client.asked[0])).toMatchObject({
      title: 'Do not ask again about write_file',
      default: false,
    })
    for (const path of paths) expect(await readFile(path, 'utf8')).toBe('after')

    const other = closing(await connect(way, () => ({ action: 'decline' })))
    await other.call('write_file', { path: paths[0], content: 'other' })
    expect(other.asked).toHaveLength(1)
    expect(await readFile(String(paths[0]), 'utf8')).toBe('after')
  })
})

test('over HTTP a remembered confirmation applies to one session, and without it each call is confirmed', async () => {
  const { gateway, ran } = await approvingGateway()
  const way: Way = { transport: 'http', url: gateway.url }
  const client = closing(await connectLegacy(way, chooses))
  for (const disk of ['a', 'b', 'c']) await client.call('wipe', { disk })
  expect(client.asked).toHaveLength(1)
  expect(ran).toHaveLength(3)
  const other = closing(await connectLegacy(way, agrees))
  for (const disk of ['d', 'e']) await other.call('wipe', { disk })
  expect(other.asked).toHaveLength(2)
})

test('a remembered confirmation is not offered to sessionless, unauthenticated callers', async () => {
  const { gateway, ran } = await approvingGateway()
  const client = closing(await connectModern({ transport: 'http', url: gateway.url }, chooses))
  for (const disk of ['a', 'b']) await client.call('wipe', { disk })
  expect(client.asked.map(choiceIn)).toEqual([undefined, undefined])
  expect(ran).toHaveLength(2)
})

test.each([
  ['in the corporate profile', { profile: 'corporate', auth: peopleNamed() }],
  ['if it is off', { auth: peopleNamed(), features: { confirm: { remember: 'off' } } }],
] as const)('a remembered confirmation is not offered %s', async (_where, config) => {
  const { gateway, ran } = await approvingGateway({ config })
  const headers = { authorization: `Bearer ${bearer.agent}` }
  const client = closing(await connectModern({ transport: 'http', url: gateway.url }, chooses, headers))
  for (const disk of ['a', 'b']) await client.call('wipe', { disk })
  expect(client.asked.map(choiceIn)).toEqual([undefined, undefined])
  expect(ran).toHaveLength(2)
})

test('a remembered confirmation can be chosen on the page if the client lacks elicitation', async () => {
  const { gateway, code, ran } = await approvingGateway()
  const client = closing(await connectLegacy({ transport: 'http', url: gateway.url }))
  const url = pageOf(await client.call('wipe', { disk: 'a' }))
  const headers = { 'content-type': form, origin: gateway.origin }
  const entered = await open(url, { method: 'POST', headers, body: new URLSearchParams({ code }).toString() })
  const cookie = String(entered.headers['set-cookie']).split(';', 1)[0] ?? ''
  const page = await (await open(url, { method: 'GET', headers: { cookie } })).text()
  expect(page).toContain('<input type="checkbox" name="remember" value="on">')
  expect(page).toContain('100 calls of this tool within 60 min')
  const stop = /write <code><bdi>(.*?)<\/bdi><\/code> under <code><bdi>(.*?)<\/bdi><\/code>/.exec(page)
  expect(stop?.slice(1)).toEqual(['confirm: never', 'upstreams.disks.tools.wipe'])
  const token = /name="token" value="([^"]+)"/.exec(page)?.[1] ?? ''
  const body = new URLSearchParams({ token, remember: 'on', verdict: 'approved' }).toString()
  const after = await open(url, { method: 'POST', headers: { ...headers, cookie }, body })
  expect(await after.text()).toContain('also for later calls of this tool')
  for (const disk of ['a', 'b', 'c']) expect(textIn(await client.call('wipe', { disk }))).toBe('wiped')
  expect(ran).toHaveLength(3)
  const line = await gateway.logged(({ event, msg }) => (event ?? msg) === 'confirm.remembered')
  expect(line).toMatchObject({ tool: 'wipe', upstream: 'disks', calls: 100, seconds: 3600 })
})

test('a remembered confirmation can be chosen at the command line if it is offered', async () => {
  const { gateway } = await approvingGateway()
  const way: Way = { transport: 'http', url: gateway.url }
  const approve = (id: string) =>
    runCommand(['approvals', 'approve', id, '--remember', '--config', gateway.configFile])
  const client = closing(await connectLegacy(way))
  const id =
    pageOf(await client.call('wipe', { disk: 'a' }))
      .split('/')
      .at(-1) ?? ''
  expect(await approve(id)).toMatchObject({ code: 0, stderr: '' })
  for (const disk of ['a', 'b']) expect(textIn(await client.call('wipe', { disk }))).toBe('wiped')
  const stateless = closing(await connectModern(way))
  const other =
    pageOf(await stateless.call('wipe', { disk: 'c' }))
      .split('/')
      .at(-1) ?? ''
  expect(await approve(other)).toMatchObject({
    code: 1,
    stderr: 'gatehouse: This approval applies to one call only and cannot be remembered.\n',
  })
})
