import { ByteWriter } from './bytes.ts'
import { encode } from './json.ts'
import { openPipe } from './pipe.ts'
import type { World } from './world.ts'

/** Serves over stdin and stdout until stdin ends. */
export function serveStdio(world: World): void {
  const { banner = [], chunk, framing, stubborn } = world.options
  const lineEnd = framing === 'crlf' ? '\r\n' : '\n'
  const writer = new ByteWriter(process.stdout, chunk)
  for (const line of banner) writer.write(`${line}\n`)
  const pipe = openPipe(world, {
    send: (message) => writer.write(`${encode(message)}${lineEnd}`),
    crash: () => process.exit(1),
  })
  let rest: Buffer = Buffer.alloc(0)
  process.stdin.on('data', (bytes: Buffer) => {
    const lines = Buffer.concat([rest, bytes])
    let start = 0
    for (let end = lines.indexOf(10); end >= 0; end = lines.indexOf(10, start)) {
      const text = lines.subarray(start, end).toString().replace(/\r$/, '')
      start = end + 1
      if (text === '') world.journal.violation('an empty line on stdin')
      else pipe.receive(text)
    }
    rest = lines.subarray(start)
  })
  if (stubborn) return stay()
  process.stdin.on('end', () => {
    pipe.close()
    process.exit(0)
  })
}

function stay(): void {
  process.on('SIGTERM', () => {})
  setTimeout(() => process.exit(0), 30_000)
}
