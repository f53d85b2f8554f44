/** `gatehouse approvals test`: sends a test message by the channels that tell people what waits. No gateway needs to run. */
import { loadChannels } from '../config/load-channels.ts'
import { publicUrl } from '../core/settings.ts'
import { secretsOf } from '../core/text/redactor.ts'
import { type ChannelTest, testChannels } from '../gateway/channel-test.ts'
import { didYouMean, type Given, UsageError } from './command.ts'
import type { commands } from './commands.ts'
import { configFile, readStored, userName, variablesOf, withAudit } from './config-file.ts'
import type { Io } from './io.ts'
import { type Output, tableLines } from './output.ts'

/** `gatehouse approvals test [CHANNEL]`. */
export async function test(given: Given<(typeof commands)['approvals test']>, io: Io): Promise<Output> {
  const { file, text } = configFile(given.config, io)
  const loaded = loadChannels(text, { file, env: variablesOf(file, given.envFile, io) })
  io.redactor?.learn(secretsOf(loaded))
  const channels = chosen(loaded.channels, given.channel)
  const link = publicUrl({ listen: loaded }, '/confirm')
  const tests = await withAudit(readStored(given, io), io, async (audit) => {
    const made = await testChannels({ channels, link, env: io.env })
    for (const { channel, failure: code } of made)
      audit?.ordered({ order: 'test', by: userName(), channel, ...(code !== undefined && { code }) })
    return made
  })
  return {
    json: { channels: tests.map((each) => ({ ...each, accepted: each.failure === undefined })) },
    text: tableLines(tests.map(rowOf)).join('\n'),
    code: tests.every(({ failure }) => failure === undefined) ? 0 : 1,
  }
}

/** The channels to try: all, or the one of a name. @throws UsageError */
function chosen<Settings>(
  channels: Readonly<Record<string, Settings>>,
  name: string | undefined,
): Readonly<Record<string, Settings>> {
  const names = Object.keys(channels)
  if (names.length === 0)
    throw new UsageError('the configuration has no channels: name them under `notify: { channels: … }`')
  if (name === undefined) return channels
  const found = Object.hasOwn(channels, name) ? channels[name] : undefined
  if (found !== undefined) return { [name]: found }
  throw new UsageError(
    `no channel is named "${name}"${didYouMean(name, names)}; there are ${names.join(', ')}`,
  )
}

function rowOf({ channel, kind, failure }: ChannelTest): readonly string[] {
  return [channel, kind, failure === undefined ? 'accepted' : `failed: ${reasonOf(failure)}`]
}

/** Why a message was not accepted, for people. */
function reasonOf(failure: string): string {
  const [protocol = '', code] = failure.split('_')
  return code === undefined
    ? (reasons[failure] ?? failure)
    : `the answer was ${protocol.toUpperCase()} ${code}`
}

const reasons: Readonly<Record<string, string>> = {
  url: 'the URL cannot be used',
  address: 'its address is one that nothing is sent to, such as that of a metadata service',
  dns: 'its host has no address',
  connection: 'no connection is possible, or it ended',
  tls: 'TLS failed: its certificate is not trusted, or it has no TLS',
  timeout: 'there was no answer in time',
}
