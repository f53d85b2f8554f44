import { randomBytes } from 'node:crypto'

/** How long the part of a secret is that gives it away, in characters. */
const PIECE = 12
/** Marks every gateway process in a test carries in its environment, and never tells. */
const AMBIENT = 'gatehouse-ambient-canary-'

/** Secrets that are recognised wherever they turn up, each with a value of its own. */
export class Canaries {
  readonly #values = new Map<string, string>()
  readonly #marks = new Map<string, readonly string[]>()

  /** The secret of a slot, made when it is first asked for. */
  of(slot: string): string {
    return this.#values.get(slot) ?? this.add(slot, `canary-${slot}-${randomBytes(12).toString('hex')}`)
  }

  /** Takes a secret of a form of its own, such as a signed token. */
  add(slot: string, value: string): string {
    this.#values.set(slot, value)
    this.#marks.set(slot, marksOf(value))
    return value
  }

  /** The slots whose secret a text holds, whole or in part, as it is or in base64. */
  in(text: string): string[] {
    return [...this.#marks]
      .filter(([, marks]) => marks.some((mark) => text.includes(mark)))
      .map(([slot]) => slot)
  }
}

/** What is added to the environment of a gateway process. */
export function ambientCanary(): { readonly GATEHOUSE_TEST_SECRET: string } {
  return { GATEHOUSE_TEST_SECRET: `${AMBIENT}${randomBytes(8).toString('hex')}` }
}

/** @throws where a process told what was only in its environment */
export function checkAmbient(output: { readonly stdout: string; readonly stderr: string }): void {
  for (const [name, text] of Object.entries(output)) {
    const at = text.indexOf(AMBIENT)
    if (at >= 0)
      throw new Error(`${name} tells a secret of the environment: …${text.slice(Math.max(0, at - 200), at)}`)
  }
}

/** What gives a value away: its random runs, or a part of one at their beginning or end. */
function marksOf(value: string): readonly string[] {
  // Of a signed token the signature alone is nobody else's.
  const own = value.startsWith('eyJ') ? (value.split('.').at(-1) ?? '') : value
  const runs = own.match(/[A-Za-z0-9]{16,}/g) ?? [own]
  return runs.flatMap((run) => [run.slice(0, PIECE), run.slice(-PIECE), ...inBase64(run)])
}

/** The middle of a text in base64, for each way it may be aligned. */
function inBase64(text: string): readonly string[] {
  return [0, 1, 2].map((before) => {
    const encoded = Buffer.from(`${'x'.repeat(before)}${text}`).toString('base64')
    return encoded.slice(4, 4 + PIECE + 4)
  })
}
