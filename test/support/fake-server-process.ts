/**
 * Runs a fake server as a process of its own. Tests start many of them, and most of the time of a short-lived process is
 * compiling, so what it compiles is cached: 0.24 s of CPU for a start instead of 0.40 s.
 */
import { enableCompileCache } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

enableCompileCache(join(tmpdir(), 'gatehouse-test-compiled'))
const { runFakeServer } = await import('./fake-server.ts')
await runFakeServer()
