// Servers of every revision, recorded through a client and replayed to clients of both eras.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it, onTestFinished } from 'vitest'
import { fakeServerCommand, startFakeServer } from '../../support/fake-server.ts'
import { servedAt } from '../../support/gateway-process.ts'
import { startCommand } from '../../support/gateway.ts'
import type { PeerClient, Way } from '../../support/peers/client.ts'
import { connectSdk1 } from '../../support/peers/sdk1.ts'
import { connectSdk2 } from '../../support/peers/sdk2.ts'
import { revisions } from '../../support/server/revisions.ts'

const root = mkdtempSync(join(tmpdir(), 'gatehouse-recordings-'))
afterAll(() => rmSync(root, { recursive: true, force: true }))

const clients = [
  { title: 'SDK 1.x', connect: connectSdk1 },
  { title: 'SDK 2.x of 2026-07-28', connect: (way: Way) => connectSdk2(way, { pin: '2026-07-28' }) },
]

async function converse(client: PeerClient): Promise<unknown> {
  const tools = await client.tools()
  const asking = ['ask_form', 'ask_rounds', 'ask_sampling'].filter((name) => tools.includes(name))
  const asked: unknown[] = []
  // Clients write the members of their answers in different orders.
  for (const name of asking) asked.push([name, JSON.parse((await client.call(name, {})).text)])
  return { tools, asked, resources: await client.resources(), prompts: await client.prompts() }
}

/** Gives the URL of a command that serves, and ends it in good order. */
async function whileServed(
  [name = '', ...words]: readonly string[],
  use: (url: string) => Promise<void>,
): Promise<void> {
  const command = startCommand([name, '--port', '0', ...words])
  try {
    await use(await servedAt(command))
    command.stop()
    expect(await command.ended).toMatchObject({ code: 0 })
  } finally {
    await command.close()
  }
}

describe.each(revisions)('a recorded server of %s', (revision) => {
  it.each(clients)('answers and asks as the server did, recorded by $title', async ({ title, connect }) => {
    const file = join(root, `${revision} ${title}.jsonl`)
    const { command, args } = fakeServerCommand({ revision })
    // The transport of the client is that of the recordings of published servers, over stdio too.
    let live: unknown
    let asked: readonly string[] = []
    await whileServed(['record', '-o', file, '--', command, ...args], async (url) => {
      const recording = await connect({ transport: 'http', url })
      live = await converse(recording)
      asked = recording.asked
      await recording.close()
    })
    expect(live).toMatchObject({ asked: expect.arrayContaining([expect.anything()]) })
    const [header = ''] = readFileSync(file, 'utf8').split('\n')
    expect(JSON.parse(header)).toMatchObject({ era: revision === '2026-07-28' ? 'modern' : 'legacy' })
    await whileServed(['replay', file], async (url) => {
      for (const { connect: reconnect } of clients) {
        const replayed = await reconnect({ transport: 'http', url })
        expect(await converse(replayed)).toEqual(live)
        expect(replayed.asked).toEqual(asked)
        await replayed.close()
      }
    })
  })
})

it.each(['2025-11-25', '2026-07-28'] as const)(
  'records several clients of a server of %s over HTTP',
  async (revision) => {
    const file = join(root, `${revision} http.jsonl`)
    const server = await startFakeServer({ revision, transport: 'http' })
    onTestFinished(() => server.close())
    let live: unknown[] = []
    await whileServed(['record', server.url, '-o', file], async (url) => {
      const both = await Promise.all(clients.map(({ connect }) => connect({ transport: 'http', url })))
      live = await Promise.all(both.map(converse))
      for (const each of both) await each.close()
    })
    await whileServed(['replay', file], async (url) => {
      for (const [index, { connect }] of clients.entries()) {
        const replayed = await connect({ transport: 'http', url })
        expect(await converse(replayed)).toEqual(live[index])
        await replayed.close()
      }
    })
  },
)
