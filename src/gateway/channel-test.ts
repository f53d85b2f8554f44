/** Tries the channels by which people are told what waits: sends a test message to each, without a gateway. */
import { environmentProxies } from '../core/proxy.ts'
import { world } from '../core/world.ts'
import { createChannels } from '../features/notify/channels.ts'
import { testMessage } from '../features/notify/message.ts'
import type { ChannelSettings } from '../features/settings/notify.ts'

/** What came of one test message. */
export interface ChannelTest {
  readonly channel: string
  /** How it reaches people. */
  readonly kind: string
  /** Why it was not accepted, as a category such as `timeout` or `http_403`; absent if it was. */
  readonly failure?: string
}

interface Trying {
  /** The channels to try, by name. */
  readonly channels: Readonly<Record<string, ChannelSettings>>
  /** The page that lists what waits. */
  readonly link: string | undefined
  readonly env: Readonly<Record<string, string | undefined>>
}

/** Sends a test message by each channel, at the same time. Never throws: the time of each is bounded. */
export function testChannels({ channels, link, env }: Trying): Promise<readonly ChannelTest[]> {
  const id = `test.${world.randomBytes(8).toString('hex')}`
  const proxies = environmentProxies(env, () => undefined)
  const tests = createChannels(channels, proxies).map(async ({ name, kind, send }) => {
    const sent = await send(testMessage(`${id}.${name}`, link), new AbortController().signal)
    return { channel: name, kind, ...(sent.kind !== 'done' && { failure: sent.failure }) }
  })
  return Promise.all(tests)
}
