import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Webhook } from 'standardwebhooks'
import { isObject, type Json } from './server/json.ts'

/** A message that a receiver accepted the signature of. */
interface Received {
  readonly id: string
  readonly subscription: string
  readonly body: Json
  /** What it answered. */
  readonly status: number
}

/** A receiver on loopback that verifies messages with the published library, and echoes challenges. */
export interface WebhookReceiver {
  readonly origin: string
  readonly url: string
  readonly secret: string
  /** The signed messages, without challenges. */
  readonly received: Received[]
  readonly challenges: Json[]
  /** How many requests were not signed. */
  unsigned(): number
  /** The status of the next messages. */
  answer(status: number): void
  /** The events that were accepted. */
  accepted(): readonly Json[]
  close(): void
}

export async function startWebhookReceiver(): Promise<WebhookReceiver> {
  const secret = `whsec_${Buffer.alloc(32, 5).toString('base64')}`
  const webhook = new Webhook(secret)
  const received: Received[] = []
  const challenges: Json[] = []
  let status = 204
  let unsigned = 0
  const answerTo = (
    request: IncomingMessage,
    text: string,
  ): { readonly status: number; readonly text: string } => {
    const headers = Object.fromEntries(
      Object.entries(request.headers).map(([name, value]) => [name, String(value)]),
    )
    let body: unknown
    try {
      body = webhook.verify(text, headers)
    } catch {
      unsigned++
      return { status: 401, text: '' }
    }
    if (!isObject(body)) return { status: 400, text: '' }
    if (body['type'] === 'verification') {
      challenges.push(body)
      return { status: 200, text: JSON.stringify({ challenge: body['challenge'] }) }
    }
    const { 'webhook-id': id = '', 'x-mcp-subscription-id': subscription = '' } = headers
    received.push({ id, subscription, body, status })
    return { status, text: '' }
  }
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const answer = answerTo(request, Buffer.concat(chunks).toString())
      response.writeHead(answer.status).end(answer.text)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    origin,
    url: `${origin}/hook?key=7`,
    secret,
    received,
    challenges,
    unsigned: () => unsigned,
    answer: (next) => void (status = next),
    accepted: () => received.filter((each) => each.status < 300).map(({ body }) => body),
    close: () => void server.close(),
  }
}
