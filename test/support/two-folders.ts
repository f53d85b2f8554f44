import { mkdirSync, mkdtempSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { publishedServer } from './peers/servers.ts'

const filesystem = '@modelcontextprotocol/server-filesystem'

/** The folders `one` and `two` in a folder of their own, and the settings of a server of files for each. */
export function twoFolders() {
  const root = realpathSync(mkdtempSync(join(tmpdir(), 'gatehouse-references-')))
  const serverOf = (name: string) => {
    mkdirSync(join(root, name))
    return { command: publishedServer(filesystem, join(root, name)) }
  }
  const servers = { one: serverOf('one'), two: serverOf('two') }
  return { root, servers, remove: () => rmSync(root, { recursive: true, force: true }) }
}
