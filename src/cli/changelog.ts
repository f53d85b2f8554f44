/** `gatehouse changelog`: prints the contract versions of servers, as recorded by gateways. */
import { changelogView, contractChangelog } from '../descriptions/formats/changelog.ts'
import { openLog } from '../observability/log.ts'
import { openSharedStore } from '../gateway/offline.ts'
import { Contracts } from '../records/contracts.ts'
import { readStored } from './config-file.ts'
import { readOptions, unknownServer, UsageError } from './words.ts'
import { type Io, print } from './io.ts'

/** `gatehouse changelog [server]`: prints what servers offer and how it changed, from the store of running gateways. */
export async function changelog(args: readonly string[], io: Io): Promise<number> {
  const options = readOptions(args, ['config', 'json'])
  const [upstream, ...others] = options.words
  if (others.length > 0) throw new UsageError('give one server, or none for all')
  const settings = readStored({ config: options.config, envFile: options.envFile }, io)
  const store = await openSharedStore(settings, openLog('warn', io))
  try {
    const all = await new Contracts(store).list()
    const found = upstream === undefined ? all : all.filter((each) => each.upstream === upstream)
    if (upstream !== undefined && found.length === 0) {
      // A server that was removed from the configuration still has a history.
      if (!settings.servers.includes(upstream)) throw unknownServer(upstream, settings.servers)
      throw new Error(
        `no contract of ${upstream} is recorded yet: start the gateway once, with features.contract on`,
      )
    }
    const text = options.json
      ? JSON.stringify(changelogView(found), null, 2)
      : contractChangelog(found).trimEnd()
    print(text, io)
    return 0
  } finally {
    await store.close()
  }
}
