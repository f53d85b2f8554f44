// A line of what tools typically return: JSON inside text, so quotes and line ends are escaped on the wire.
const LINE = '{"path":"src/core/call.ts","size":4096,"kind":"file"}\n'
const texts = new Map<number, string>()

/** The text the tool `reply` returns, such that its encoded result is close to `bytes` long. */
export function replyText(bytes: number): string {
  const known = texts.get(bytes)
  if (known !== undefined) return known
  const line = JSON.stringify(LINE).length - 2
  const text = LINE.repeat(Math.max(1, Math.round((bytes - 70) / line)))
  if (texts.size < 16) texts.set(bytes, text)
  return text
}

/** The two protocol revisions the benchmark speaks, one of each era. */
export const REVISIONS = { legacy: '2025-11-25', modern: '2026-07-28' } as const

/** Which of the two generations of the protocol a peer speaks. */
export type Era = keyof typeof REVISIONS
