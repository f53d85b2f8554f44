/** `gatehouse skill` and `gatehouse export`: connect to a server and print a document about it. */
import type { Settings, UpstreamSettings } from '../core/settings.ts'
import { ownUrl } from '../core/web.ts'
import { registryEntry } from '../descriptions/formats/manifest.ts'
import { skillOf } from '../descriptions/formats/skill.ts'
import type { ServerDescription } from '../descriptions/model/description.ts'
import { openLog } from '../observability/log.ts'
import { Gateway } from '../gateway/gateway.ts'
import { readNamed, readOnlySettings } from './options.ts'
import { UsageError } from './words.ts'
import { type Io, printJson, write } from './io.ts'

/** `gatehouse export registry [server]`: prints the registry entry of a server, or of all servers together. */
export async function exportEntry(args: readonly string[], io: Io): Promise<number> {
  const [kind, ...rest] = args
  if (kind !== 'registry') throw new UsageError('use gatehouse export registry')
  const { source, server, words } = readNamed(rest, ['config', 'log-level'], io)
  if (words.length > 0) throw new UsageError('give one server, or none')
  const entry = await described(source.settings, server, { make: registryEntry, io })
  printJson(entry, io)
  return 0
}

/** `gatehouse skill [server]`: prints the SKILL.md of a server, or of all servers together. */
export async function skill(args: readonly string[], io: Io): Promise<number> {
  const { source, server, words } = readNamed(args, ['config', 'log-level'], io)
  if (words.length > 0) throw new UsageError('give one server, or none')
  const { text } = await described(source.settings, server, { make: skillOf, io })
  write(text, io)
  return 0
}

/** Creates a document about one server, or all servers, of a configuration. @throws what listing the server throws */
async function described<Made>(
  settings: Settings,
  server: UpstreamSettings | undefined,
  { make, io }: { make(description: ServerDescription): Made; readonly io: Io },
): Promise<Made> {
  const { host, port } = settings.listen
  const gateway = new Gateway(readOnlySettings(settings, settings.upstreams), {
    variables: io.env,
    log: openLog('error', io, true),
    origin: ownUrl(host, port),
  })
  try {
    if (server) await gateway.entries(server.name)
    else await gateway.start()
    return await gateway.describe(server?.name, make)
  } finally {
    await gateway.close()
  }
}
