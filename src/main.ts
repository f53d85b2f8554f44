#!/usr/bin/env node
/** The entry point: checks the version of Node.js, then runs the command. */
import module from 'node:module'
import { join } from 'node:path'
import { setFlagsFromString } from 'node:v8'
import { userFolder } from './config/user-folders.ts'
import { createPrivateFolder } from './store/private-folder.ts'

const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)

if (major < 22 || (major === 22 && minor < 19)) {
  process.stderr.write(`gatehouse needs Node.js 22.19 or newer; this is ${process.versions.node}.\n`)
  process.exitCode = 2
} else {
  // V8 allocates among the old objects what comes from a place whose objects survived often, as calls that wait for a
  // server do. From there they keep alive whatever they lead to, until a full collection: measured at 64 calls at once,
  // about every other process had twice the latency (p99), 120 MB more, and needed a fifth more CPU time for each call.
  setFlagsFromString('--no-allocation-site-pretenuring')
  // From the second start on, this reduces the startup time by a third. What is in the cache is run without a check, so
  // it is not among the temporary files of all users, where Node.js would put it.
  const cache = createPrivateFolder(join(userFolder('cache', process.env), 'gatehouse', 'compiled'))
  if (cache !== undefined) module.enableCompileCache(cache)
  const { run } = await import('./cli/run.ts')
  const { processIo } = await import('./cli/io.ts')
  // No timer of the gateway keeps the process running: without this, a command that waits for one alone would end there.
  const running = setInterval(() => undefined, 2 ** 31 - 1)
  process.exitCode = await run(process.argv.slice(2), processIo()).finally(() => clearInterval(running))
}
