// Receives webhooks: each message with a valid signature is a line of the log before it is accepted.
// Usage: receiver.ts PORT LOG; it prints the port once it listens.
import { appendFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { text } from 'node:stream/consumers'
import { isSigned } from '../support/event-receiver.ts'
import { isObject, parse } from '../support/server/json.ts'

const [port, log = ''] = process.argv.slice(2)

const server = createServer((request, response) => {
  void text(request).then((body) => {
    const message = parse(body)
    // A message that is refused here never arrives, so the verdict names it as lost.
    if (!isSigned(request.headers, body) || !isObject(message)) return response.writeHead(401).end()
    const { type, challenge } = message
    if (type === 'verification') return response.end(JSON.stringify({ challenge }))
    appendFileSync(log, `${JSON.stringify({ path: request.url, at: Date.now(), message })}\n`)
    return response.writeHead(204).end()
  })
})
server.listen(Number(port), '127.0.0.1', () => process.stdout.write(`${port}\n`))
