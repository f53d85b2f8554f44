import { createHmac } from 'node:crypto'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { Secret } from '../../../src/core/text/secret.ts'
import { signedHeaders } from '../../../src/core/standard-webhooks.ts'
import { tokenHash } from '../../support/auth/token-hash.ts'
import { until } from '../../support/condition.ts'
import { dataOf } from '../../support/declaring-gateway.ts'
import { runCommand } from '../../support/gateway.ts'
import { folder } from '../../support/journey.ts'
import { type LocalGateway, localGateway } from '../../support/local-gateway.ts'
import { publishedServer } from '../../support/peers/servers.ts'
import type { Json } from '../../support/server/json.ts'
import { StatelessClient } from '../../support/stateless-client.ts'

const filesystem = '@modelcontextprotocol/server-filesystem'

/** A folder with one file, and a watch of it. */
function watchedFolder() {
  const root = folder()
  writeFileSync(join(root, 'first.txt'), '1')
  return {
    root,
    write: (name: string): void => writeFileSync(join(root, name), name),
    remove: (name: string): void => rmSync(join(root, name)),
    events: {
      'file.listed': {
        watch: `list_directory(path=${JSON.stringify(root)})`,
        every: '1s',
        items: '$.result.content',
        id: '$',
        removed: true,
      },
    },
  }
}

/** A gateway to one server, and what its client polls. */
async function gatewayTo(server: Json, more: Json = {}) {
  const gateway = await localGateway({ features: { events: 'on' }, ...more, upstreams: { one: server } })
  let closed: Promise<void> | undefined
  const close = (): Promise<void> => (closed ??= gateway.close())
  onTestFinished(close)
  return { gateway, close, ...clientOf(gateway) }
}

function clientOf({ url }: LocalGateway) {
  const client = new StatelessClient({ url })
  const poll = async (name: string, cursor: unknown = null): Promise<Json> => {
    const { fields, error } = await client.send('events/poll', { name, cursor })
    if (error) throw new Error(JSON.stringify([error, fields]))
    return fields
  }
  /** The data of the events after a cursor, once there are as many. */
  const found = (name: string, cursor: unknown, count: number): Promise<Json[]> =>
    until(async () => {
      const data = dataOf(await poll(name, cursor))
      return data.length >= count && data
    }, `${count} events of ${name}`)
  return { poll, found }
}

describe('events of watches', () => {
  it('are what changes in a folder that a published server lists', async () => {
    const { root, write, remove, events } = watchedFolder()
    const command = publishedServer(filesystem, root)
    const { poll, found } = await gatewayTo({ command, events })
    const { cursor } = await poll('file.listed')
    write('second.txt')
    const added = { id: '[FILE] second.txt', change: 'added', item: '[FILE] second.txt' }
    expect(await found('file.listed', cursor, 1)).toEqual([added])
    remove('first.txt')
    const both = await found('file.listed', cursor, 2)
    expect(both).toEqual([added, { id: '[FILE] first.txt', change: 'removed' }])
    expect(await poll('file.listed', cursor)).toMatchObject({ truncated: false })
  })

  it('have the whole item after a change inside of it, from a text that is JSON', async () => {
    const root = folder()
    mkdirSync(join(root, 'docs'))
    const tree = { watch: `directory_tree(path=${JSON.stringify(root)})`, every: '1s', id: '$.name' }
    const events = { 'tree.changed': { ...tree, items: '$.result.content', fields: ['name', 'children'] } }
    const { poll, found } = await gatewayTo({ command: publishedServer(filesystem, root), events })
    const { cursor } = await poll('tree.changed')
    writeFileSync(join(root, 'docs', 'a.md'), 'a')
    expect(await found('tree.changed', cursor, 1)).toEqual([
      {
        id: 'docs',
        change: 'changed',
        item: { name: 'docs', children: [{ name: 'a.md', type: 'file' }] },
      },
    ])
  })

  it('of a server that dies and comes back are what changed meanwhile, once', async () => {
    const { root, write, events } = watchedFolder()
    const state = folder()
    const down = join(state, 'down')
    const script = 'echo $$ > "$0/pid"; test -e "$0/down" && exit 1; exec "$@"'
    const command = ['sh', '-c', script, state, ...publishedServer(filesystem, root)]
    const { gateway, poll, found } = await gatewayTo({ command, events })
    const { cursor } = await poll('file.listed')
    writeFileSync(down, '')
    process.kill(Number(readFileSync(join(state, 'pid'), 'utf8')), 'SIGKILL')
    write('second.txt')
    write('third.txt')
    const failures = (): readonly Json[] =>
      gateway.lines.filter(({ event }) => event === 'events.poll_failed')
    await until(() => failures().length > 0, 'a failed poll')
    // Who may receive the events may be unknown now: that is no refusal, and no gap.
    const during = await poll('file.listed', cursor).catch(({ message }: Error) => ({ message }))
    if ('message' in during) expect(during.message).toContain('SERVER_UNAVAILABLE')
    else expect(during).toMatchObject({ events: [], truncated: false })
    rmSync(down)
    write('fourth.txt')
    const data = await found('file.listed', cursor, 3)
    expect(data.map(({ id }) => id)).toEqual(['[FILE] fourth.txt', '[FILE] second.txt', '[FILE] third.txt'])
    write('fifth.txt')
    expect(await found('file.listed', cursor, 4)).toHaveLength(4)
    expect(failures()).toMatchObject([{ level: 'warn', upstream: 'one', type: 'file.listed' }])
  }, 60_000)

  it('go on after a restart of the gateway, from the items of its last poll', async () => {
    const { root, write, events } = watchedFolder()
    const server = { command: publishedServer(filesystem, root), events }
    const store = folder()
    const before = await gatewayTo(server, { store })
    const { cursor } = await before.poll('file.listed')
    await before.close()
    write('second.txt')
    const { poll, found } = await gatewayTo(server, { store })
    await poll('file.listed', cursor)
    expect(await found('file.listed', cursor, 1)).toMatchObject([
      { id: '[FILE] second.txt', change: 'added' },
    ])
    expect(await poll('file.listed', cursor)).toMatchObject({ truncated: false })
  })

  it('prevent the start if their tool writes, or is unknown', async () => {
    const root = folder()
    const [write, other] = ['write_file(path="a", content="b")', 'list_directry(path="a")']
    const events = { a: { watch: write, id: '$' }, b: { watch: other, id: '$' } }
    const { gateway } = await gatewayTo({ command: publishedServer(filesystem, root), events })
    expect(gateway.collisions).toEqual([
      expect.stringContaining('write_file is called to read, but is not classified as read-only'),
      'one has no tool list_directry; did you mean list_directory?',
    ])
  })
})

describe('gatehouse check', () => {
  async function check(events: Json, ...args: string[]) {
    const { root } = watchedFolder()
    const path = join(folder(), 'gateway.config.yaml')
    const text = JSON.stringify({
      store: 'memory',
      features: { events: 'on' },
      upstreams: { one: { command: publishedServer(filesystem, root), events } },
    }).replaceAll('ROOT', root)
    writeFileSync(path, text)
    return runCommand(['check', '--config', path, ...args])
  }
  const listed = { watch: 'list_directory(path="ROOT")', items: '$.result.content', id: '$' }

  it('tries each watch once, and says what it found', async () => {
    const { code, stdout, stderr } = await check({ 'file.listed': listed })
    expect([code, stderr]).toEqual([0, ''])
    expect(stdout).toContain('upstreams.one.events["file.listed"]: 1 item: [FILE] first.txt\n')
    const json = await check({ listed }, '--json')
    expect(JSON.parse(json.stdout)).toMatchObject({
      ok: true,
      watches: [{ event: 'upstreams.one.events.listed', items: 1, ids: ['[FILE] first.txt'] }],
    })
  })

  it('names a path that finds nothing, and one that is no id, with their places in the file', async () => {
    const { code, stderr } = await check({
      a: { ...listed, items: '$.result.contents' },
      b: { ...listed, id: '$.name' },
      c: { ...listed, watch: 'list_directory()' },
    })
    expect(code).toBe(1)
    expect(stderr).toMatch(
      /:1:\d+ upstreams\.one\.events\.a\.items: there is no list at \$\.result\.contents/,
    )
    expect(stderr).toMatch(/:1:\d+ upstreams\.one\.events\.b\.id: an item has no text or number at \$\.name/)
    expect(stderr).toMatch(/:1:\d+ upstreams\.one\.events\.c\.watch: list_directory requires path/)
    expect(stderr).toMatch(/\n3 problems/)
  })
})

describe('events of webhooks', () => {
  const secret = 'It is a secret to everybody'
  const standard = 'whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8='
  const pull = {
    action: 'opened',
    number: 7,
    pull_request: { title: 'Fix it', user: { login: 'ada' } },
    repository: { full_name: 'a/b' },
  }
  const events = {
    pull_request: {
      hook: { secret, form: 'github' },
      when: { 'x-github-event': 'pull_request', '$.action': ['opened', 'closed'] },
      fields: ['action', 'number', 'pull_request.title'],
    },
    payment: { hook: { secret: standard, form: 'stripe' } },
    message: { hook: { secret: standard, form: 'standard' } },
  }

  async function receiver(more: Json = {}) {
    const server = { command: publishedServer(filesystem, folder()), events }
    const made = await gatewayTo(server, { limits: { body: '2KB' }, ...more })
    const post = async (
      path: string,
      body: string,
      headers: Readonly<Record<string, string>>,
    ): Promise<number> => {
      const url = `${made.gateway.origin}/hooks/${path}`
      const { status } = await fetch(url, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        body,
      })
      return status
    }
    return { ...made, post }
  }

  /** The headers of a webhook of GitHub. */
  function github(body: string, event = 'pull_request', key = secret) {
    return {
      'x-github-event': event,
      'x-github-delivery': '72d3162e-cc78-11e3-81ab-4c9367dc0958',
      'x-hub-signature-256': `sha256=${createHmac('sha256', key).update(body).digest('hex')}`,
    }
  }

  it('of GitHub are accepted once with their signature, also after a restart', async () => {
    const store = folder()
    const before = await receiver({ store })
    const { cursor } = await before.poll('pull_request')
    const body = JSON.stringify(pull)
    expect(await before.post('one/pull_request', body, github(body))).toBe(202)
    expect(await before.post('one/pull_request', body, github(body))).toBe(202)
    const data = { action: 'opened', number: 7, 'pull_request.title': 'Fix it' }
    expect(dataOf(await before.poll('pull_request', cursor))).toEqual([{ type: 'pull_request', body: data }])
    await before.close()
    const after = await receiver({ store })
    expect(await after.post('one/pull_request', body, github(body))).toBe(202)
    const other = JSON.stringify({ ...pull, number: 8 })
    expect(await after.post('one/pull_request', other, github(other))).toBe(202)
    const ping = JSON.stringify({ zen: 'Design for failure.' })
    expect(await after.post('one/pull_request', ping, github(ping, 'ping'))).toBe(202)
    const found = dataOf(await after.poll('pull_request', cursor))
    expect(found.map((each) => (each['body'] as Json)['number'])).toEqual([7, 8])
  })

  it('of Stripe and of Standard Webhooks are accepted, within five minutes', async () => {
    const { poll, post } = await receiver()
    const [{ cursor }, { cursor: other }] = [await poll('payment'), await poll('message')]
    const body = JSON.stringify({ id: 'evt_1', type: 'invoice.paid' })
    const stripe = (seconds: number) => {
      const v1 = createHmac('sha256', standard).update(`${seconds}.${body}`).digest('hex')
      return { 'stripe-signature': `t=${seconds},v1=${v1}` }
    }
    const signed = (at: number) => signedHeaders({ id: 'msg_1', at, body }, [new Secret(standard)])
    const seconds = Math.floor(Date.now() / 1000)
    expect(await post('one/payment', body, stripe(seconds - 400))).toBe(400)
    expect(await post('one/payment', body, stripe(seconds))).toBe(202)
    expect(await post('one/message', body, signed(Date.now() - 400_000))).toBe(400)
    expect(await post('one/message', body, signed(Date.now()))).toBe(202)
    expect(await post('one/message', body, signed(Date.now() + 1000))).toBe(202)
    const expected = [{ type: 'invoice.paid', body: { id: 'evt_1', type: 'invoice.paid' } }]
    expect(dataOf(await poll('payment', cursor))).toEqual(expected)
    expect(dataOf(await poll('message', other))).toEqual(expected)
  })

  it('are refused without their signature, if they are too large, no JSON object, or unknown; no log has a body', async () => {
    const { gateway, poll, post } = await receiver()
    const { cursor } = await poll('pull_request')
    const body = JSON.stringify(pull)
    const list = '["a-private-value"]'
    const large = JSON.stringify({ large: 'x'.repeat(3000) })
    const statuses = [
      await post('one/pull_request', body, {}),
      await post('one/pull_request', body, github(body, 'pull_request', 'another secret')),
      await post('one/pull_request', `${body} `, github(body)),
      await post('one/pull_request', list, github(list)),
      await post('one/pull_request', large, github(large)),
      await post('one/none', body, github(body)),
      await post('pull_request', body, github(body)),
    ]
    expect(statuses).toEqual([401, 401, 401, 400, 413, 404, 404])
    expect(dataOf(await poll('pull_request', cursor))).toEqual([])
    expect(JSON.stringify(gateway.lines)).not.toMatch(/a-private-value|Fix it|secret to everybody/)
  })

  it('are declared in a public file, also where callers need a token', async () => {
    const tokens = [{ id: 'ada', hash: tokenHash('the-token-of-ada') }]
    const { gateway } = await receiver({ auth: { opaque: { tokens } } })
    const response = await fetch(`${gateway.origin}/.well-known/mcp-webhook-receiver.json`)
    expect([response.status, await response.json()]).toEqual([200, { receivers: ['/hooks/'] }])
  })

  it('of no server have an address and a log of their own', async () => {
    const build = { 'build.done': { hook: { secret, form: 'github' } } }
    const { poll, post } = await receiver({ events: build })
    const { cursor } = await poll('build.done')
    const body = JSON.stringify({ build: 1 })
    expect(await post('build.done', body, github(body, 'check'))).toBe(202)
    expect(dataOf(await poll('build.done', cursor))).toEqual([{ type: 'check', body: { build: 1 } }])
  })
})
