/** `gatehouse skill`, `export registry` and `changelog`: print documents about servers. */
import type { Settings } from '../core/settings.ts'
import { ownUrl } from '../core/web.ts'
import { changelogView, contractChangelog } from '../descriptions/formats/changelog.ts'
import { registryEntry } from '../descriptions/formats/manifest.ts'
import { skillOf } from '../descriptions/formats/skill.ts'
import type { ServerDescription } from '../descriptions/model/description.ts'
import { Contracts } from '../records/contracts.ts'
import type { Given } from './command.ts'
import type { commands } from './commands.ts'
import { readStored, unknownServer, withStore } from './config-file.ts'
import type { Io } from './io.ts'
import type { Output } from './output.ts'

type Commands = typeof commands

/** `gatehouse export registry [SERVER]`: prints the registry entry of a server, or of all servers together. */
export async function exportRegistry(given: Given<Commands['export registry']>, io: Io): Promise<Output> {
  const entry = await described(given, io, registryEntry)
  return { json: entry, text: JSON.stringify(entry, null, 2) }
}

/** `gatehouse skill [SERVER]`: prints the SKILL.md of a server, or of all servers together. */
export async function skill(given: Given<Commands['skill']>, io: Io): Promise<Output> {
  const { text } = await described(given, io, skillOf)
  return { json: { text }, text: text.replace(/\n$/, '') }
}

/** Creates a document about one server, or all servers, of a configuration. @throws what listing the server throws */
async function described<Made>(
  given: Given<Commands['skill']>,
  io: Io,
  make: (description: ServerDescription) => Made,
): Promise<Made> {
  // A changelog needs no gateway.
  const { readableLog, readOnlySettings, readServers, withGateway } = await import('./source.ts')
  const { source, server } = readServers(given, io)
  const settings: Settings = readOnlySettings(source.settings, source.settings.upstreams)
  const origin = ownUrl(settings.listen.host, settings.listen.port)
  return withGateway(settings, { io, log: readableLog(io, given.logLevel), origin }, async (gateway) => {
    if (server) await gateway.entries(server.name)
    else await gateway.start()
    return gateway.describe(server?.name, make)
  })
}

/** `gatehouse changelog [SERVER]`: prints what servers offer and how it changed, from the store of running gateways. */
export function changelog(given: Given<Commands['changelog']>, io: Io): Promise<Output> {
  const settings = readStored(given, io)
  const { server } = given
  return withStore(settings, io, async (store) => {
    const all = await new Contracts(store).list()
    const found = server === undefined ? all : all.filter((each) => each.upstream === server)
    if (server !== undefined && found.length === 0) {
      // A server that was removed from the configuration still has a history.
      if (!settings.servers.includes(server)) throw unknownServer(server, settings.servers)
      throw new Error(
        `no contract of ${server} is recorded yet: start the gateway once, with features.contract on`,
      )
    }
    return { json: changelogView(found), text: contractChangelog(found).trimEnd() }
  })
}
