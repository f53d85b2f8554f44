import { createHash } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { sha256Of } from '../bench/large-text.ts'
import type { MortalGateway } from './crash-field.ts'
import type { Seeded } from '../simulate/random.ts'
import { isObject, type Json, objectAt } from './server/json.ts'
import { type Answer, StatelessClient } from './stateless-client.ts'

/** Data that a gateway promised to keep. */
export interface Promised {
  readonly id: string
  readonly bytes: number
  readonly sha256: string
  readonly expiresAt: number
}

/** What a client made of its calls. */
export class Tally {
  readonly promised: Promised[] = []
  readonly faults: string[] = []
  /** Calls without a response. */
  lost = 0
  reads = 0
  resolved = 0
  /** Results that were passed on as they were, by the code of the reason. */
  readonly notKept = new Map<unknown, number>()
}

type Gateways = readonly [MortalGateway, ...MortalGateway[]]

/** How long before it expires data is no longer asked for, in milliseconds. */
const MARGIN_MS = 1500
/** The codes of errors after which a call is repeated. */
const transient: ReadonlySet<unknown> = new Set(['SERVER_UNAVAILABLE', 'UPSTREAM_ERROR'])

/** Has a result of a size kept; undefined if no response came, or it was not kept. */
export async function keep(
  gateways: Gateways,
  random: Seeded,
  { bytes, tally }: { readonly bytes: number; readonly tally: Tally },
): Promise<Promised | undefined> {
  const answer = await attempt(gateways, random, tally, (client) => client.call('get_text', { bytes }))
  if (!answer || answer.error) return undefined
  const { ref_id: id, size_bytes: size, ...facts } = objectAt(answer.meta, 'dev.gatehouse/data_reference')
  if (typeof id !== 'string') {
    const { code } = objectAt(answer.meta, 'dev.gatehouse/not_kept')
    tally.notKept.set(code, (tally.notKept.get(code) ?? 0) + 1)
    if (code === undefined || Buffer.byteLength(answer.texts.join('')) !== bytes)
      tally.faults.push(`${bytes} bytes were neither kept nor passed on: ${String(code)}`)
    return undefined
  }
  const sha256 = sha256Of(bytes)
  const { value } = objectAt(facts, 'checksum')
  if (size !== bytes || value !== sha256) tally.faults.push(`${id} has ${String(size)} of ${bytes} bytes`)
  const promised = { id, bytes, sha256, expiresAt: Date.parse(String(facts['expires_at'])) }
  tally.promised.push(promised)
  return promised
}

/** Reads or resolves promised data until a gateway answers: it must be all of it, until it expires. */
export async function use(
  gateways: Gateways,
  random: Seeded,
  { promised, tally }: { readonly promised: Promised; readonly tally: Tally },
): Promise<void> {
  const { id, sha256, expiresAt } = promised
  const isRead = random.chance(0.5)
  const uri = `ref://${id}`
  while (Date.now() < expiresAt - MARGIN_MS) {
    const answer = await attempt(gateways, random, tally, (client) =>
      isRead ? client.send('resources/read', { uri }) : client.call('digest', { text: uri }),
    )
    const code = answer && codeOf(answer)
    if (!answer || transient.has(code)) {
      await pause(100)
      continue
    }
    const found = isRead ? sha256OfContents(answer) : answer.texts[0]
    if (found === sha256) tally[isRead ? 'reads' : 'resolved']++
    // It may have expired while it was asked for.
    else if (Date.now() < expiresAt)
      tally.faults.push(`${id}: ${String(code ?? found)}, ${expiresAt - Date.now()} ms before`)
    return
  }
}

async function attempt(
  gateways: Gateways,
  random: Seeded,
  tally: Tally,
  call: (client: StatelessClient) => Promise<Answer>,
): Promise<Answer | undefined> {
  try {
    return await call(new StatelessClient({ url: random.pick(gateways).url }))
  } catch {
    tally.lost++
    return undefined
  }
}

function codeOf({ error, meta }: Answer): unknown {
  return error ? error.data['code'] : objectAt(meta, 'dev.gatehouse/error')['code']
}

function sha256OfContents({ fields }: Answer): string | undefined {
  const contents: readonly unknown[] = Array.isArray(fields['contents']) ? fields['contents'] : []
  const [first] = contents.filter(isObject) as readonly Json[]
  return first && createHash('sha256').update(String(first['text'])).digest('hex')
}
