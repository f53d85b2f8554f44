/**
 * Names of data, and of where it came from. The names of data come from servers and callers, and become names of files,
 * headers and cells of tables.
 */

/**
 * In place of the name of a server, for data that its caller sent: the caller may always read it. No server can have
 * this name.
 */
export const UPLOADS = '@uploads'

const MAX_LENGTH = 200
/** What is not shown, changes the direction of text, or means something in paths. */
const UNPLAIN = /[\p{C}\p{Zl}\p{Zp}\p{DI}:*?"<>|]+/gu
/** The names of devices in Windows, whatever follows the first dot. */
const DEVICE = /^(?:con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$)(?=\s*(?:\.|$))/i

/** A name without folders and without what does not belong in the name of a file; `data` if nothing is left. */
export function plainName(name: string): string {
  const last = name.split(/[/\\]/).at(-1) ?? ''
  const plain = last
    .toWellFormed()
    .replaceAll(UNPLAIN, ' ')
    .replace(/^[. ]+/, '')
    .slice(0, MAX_LENGTH)
    .toWellFormed()
    .replace(/[. ]+$/, '')
    .replace(DEVICE, '_$&')
  return plain === '' ? 'data' : plain
}

/** Where data came from, in words. */
export function originText({
  server,
  tool,
}: {
  readonly server: string
  readonly tool?: string | undefined
}): string {
  if (server === UPLOADS) return 'an upload of the caller'
  return tool === undefined ? server : `${tool} on ${server}`
}
