import { createServer, type ServerResponse } from 'node:http'
import { connect, type Socket, type AddressInfo } from 'node:net'
import { Writable } from 'node:stream'
import { setImmediate } from 'node:timers/promises'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { HttpReply, Replay } from '../../../src/downstream/http/reply.ts'
import { Ticker } from '../../../src/downstream/http/edge.ts'
import { drained } from '../../../src/downstream/session/response-sink.ts'

const PROGRESS = '{"jsonrpc":"2.0","method":"notifications/progress"'

/** A message that the transport takes for progress. */
function progress(value: number, size = 0): string {
  return `${PROGRESS},"params":{"progress":${value},"text":"${'x'.repeat(size)}"}}`
}

/** A response whose client does not read until it is resumed. */
async function paused(): Promise<{ response: ServerResponse; client: Socket; received(): string }> {
  const opened = Promise.withResolvers<ServerResponse>()
  const server = createServer((_request, response) => opened.resolve(response))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const client = connect(port, '127.0.0.1')
  client.pause()
  let text = ''
  client.on('data', (part: Buffer) => (text += part.toString()))
  client.pause()
  client.on('error', () => undefined)
  client.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n')
  onTestFinished(() => {
    client.destroy()
    server.closeAllConnections()
    server.close()
  })
  return { response: await opened.promise, client, received: () => text }
}

function replyTo(response: ServerResponse, more: object = {}) {
  const onSlow = vi.fn<() => void>()
  const ticker = new Ticker()
  onTestFinished(() => ticker.close())
  const reply = new HttpReply(response, { requestId: 'r' }, { ticker, canStream: true, onSlow, ...more })
  return { reply, onSlow }
}

/** Whether a promise is settled after all events that are pending now, and those that follow them. */
async function isSettled(promise: Promise<unknown>): Promise<boolean> {
  const open = Symbol('open')
  for (let turn = 0; turn < 20; turn++) await setImmediate()
  return (await Promise.race([promise, Promise.resolve(open)])) !== open
}

/** Fills what lies between the two ends. */
function fill(reply: HttpReply): void {
  reply.emit(progress(0, 7 * 1024 * 1024), true)
}

describe('a response to a client that does not read', () => {
  it('is drained once the client has read it', async () => {
    const { response, client } = await paused()
    const { reply } = replyTo(response)
    await reply.drained()
    fill(reply)
    const read = reply.drained()
    expect(await isSettled(read)).toBe(false)
    client.resume()
    await read
    expect(response.writableLength).toBe(0)
  })

  it('is drained once the client has disconnected', async () => {
    const { response, client } = await paused()
    const { reply } = replyTo(response)
    fill(reply)
    const read = reply.drained()
    expect(await isSettled(read)).toBe(false)
    client.destroy()
    await read
  })

  it('contains every message that must arrive, and progress before it is skipped instead of sent after it', async () => {
    const { response, client, received } = await paused()
    const { reply, onSlow } = replyTo(response)
    fill(reply)
    reply.emit(progress(1))
    reply.emit(progress(2), true)
    reply.emit(progress(3), true)
    reply.emit(progress(4))
    reply.end('{"result":1}')
    client.resume()
    await vi.waitFor(() => expect(received()).toContain('{"result":1}'))
    const values = [...received().matchAll(/"progress":(\d+)/g)].map(([, value]) => value)
    expect(values).toEqual(['0', '2', '3', '4'])
    expect(onSlow).not.toHaveBeenCalled()
  })

  it('may have one message of any size, and ends only if more follows', async () => {
    const { response, client, received } = await paused()
    const { reply, onSlow } = replyTo(response)
    reply.emit(progress(0, 20 * 1024 * 1024), true)
    expect(onSlow).not.toHaveBeenCalled()
    client.resume()
    await reply.drained()
    await vi.waitFor(() => expect(received().length).toBeGreaterThan(20 * 1024 * 1024))
    client.pause()
    reply.emit(progress(1, 20 * 1024 * 1024), true)
    reply.emit(progress(2), true)
    expect(onSlow).toHaveBeenCalledTimes(1)
    expect(response.destroyed).toBe(true)
  })
})

describe('a stream that can be resumed', () => {
  it('is drained while little waits for a client that is away, and again once it has read what waits', async () => {
    const stream = new Replay().record()
    stream.add('x'.repeat(1000))
    await stream.drained()
    stream.add('x'.repeat(2_000_000))
    const read = stream.drained()
    expect(await isSettled(read)).toBe(false)
    const flushed = Promise.withResolvers<void>()
    const outlet = {
      write: () => true,
      hangUp: () => undefined,
      isGone: false,
      flushed: () => flushed.promise,
    }
    stream.resume(outlet)
    expect(await isSettled(read)).toBe(false)
    flushed.resolve()
    await read
  })

  it('whose connection has ended counts as one that is away', async () => {
    const stream = new Replay().record()
    stream.add('x'.repeat(2_000_000))
    const gone = { write: () => false, hangUp: () => undefined, isGone: true, flushed: async () => undefined }
    stream.attach(gone)
    expect(await isSettled(stream.drained())).toBe(false)
    expect(stream.hasOutlet).toBe(false)
  })

  it('that is finished is drained', async () => {
    const stream = new Replay().record()
    stream.add('x'.repeat(2_000_000))
    const read = stream.drained()
    stream.finish()
    await read
  })

  it('belongs to the response it began with, or to the one that resumed it', async () => {
    const { response, client } = await paused()
    const stream = new Replay().record()
    const { reply } = replyTo(response, { record: () => stream })
    fill(reply)
    const read = reply.drained()
    expect(await isSettled(read)).toBe(false)
    client.destroy()
    const outlet = {
      write: () => true,
      hangUp: () => undefined,
      isGone: false,
      flushed: async () => undefined,
    }
    stream.resume(outlet)
    await read
  })
})

describe('a pair of streams', () => {
  it('is drained once the output takes more', async () => {
    const parts: (() => void)[] = []
    const output = new Writable({
      highWaterMark: 10,
      write: (_part, _encoding, done) => void parts.push(done),
    })
    await drained(output)
    output.write('x'.repeat(20))
    const read = drained(output)
    expect(await isSettled(read)).toBe(false)
    parts[0]?.()
    await read
    output.write('x'.repeat(20))
    const closed = drained(output)
    output.destroy()
    await closed
  })
})
