/** What a type of media begins with: bytes at an offset. */
type Mark = readonly [type: string, offset: number, bytes: string]

const marks: readonly Mark[] = [
  ['image/png', 0, '\x89PNG\r\n\x1a\n'],
  ['image/jpeg', 0, '\xff\xd8\xff'],
  ['image/gif', 0, 'GIF8'],
  ['image/webp', 8, 'WEBP'],
  ['image/bmp', 0, 'BM'],
  ['image/tiff', 0, 'II*\0'],
  ['image/tiff', 0, 'MM\0*'],
  ['audio/wav', 8, 'WAVE'],
  ['audio/mpeg', 0, 'ID3'],
  ['audio/mpeg', 0, '\xff\xfb'],
  ['audio/flac', 0, 'fLaC'],
  ['audio/ogg', 0, 'OggS'],
  ['video/mp4', 4, 'ftyp'],
  ['video/webm', 0, '\x1aE\xdf\xa3'],
  ['application/pdf', 0, '%PDF-'],
  ['application/zip', 0, 'PK\x03\x04'],
  ['application/gzip', 0, '\x1f\x8b'],
]

/** How many characters of base64 are looked at. */
const MAX_HEAD_LENGTH = 32

/** What kind of media bytes in base64 are, by how they begin; nothing where that does not tell. */
export function sniffed(base64: string): string | undefined {
  const head = Buffer.from(base64.slice(0, MAX_HEAD_LENGTH), 'base64').toString('latin1')
  return marks.find(([, offset, bytes]) => head.startsWith(bytes, offset))?.[0]
}

/** Other names of one type, and types whose files are of another type inside. */
const aliases: Readonly<Record<string, string>> = {
  'image/jpg': 'image/jpeg',
  'image/x-png': 'image/png',
  'audio/mp3': 'audio/mpeg',
  'audio/x-wav': 'audio/wav',
  'audio/wave': 'audio/wav',
  'audio/vnd.wave': 'audio/wav',
  'audio/mp4': 'video/mp4',
  'audio/x-m4a': 'video/mp4',
  'video/quicktime': 'video/mp4',
  'image/heic': 'video/mp4',
  'image/avif': 'video/mp4',
  'video/x-matroska': 'video/webm',
  'audio/webm': 'video/webm',
  'video/ogg': 'audio/ogg',
  'application/ogg': 'audio/ogg',
  'application/x-gzip': 'application/gzip',
}

/** Whether bytes of one type can be what was declared. */
export function canBe(found: string, declared: string): boolean {
  const type = (declared.split(';')[0] ?? '').trim().toLowerCase()
  const known = aliases[type] ?? type
  if (known === found || known === '*/*' || known === 'application/octet-stream') return true
  if (known.endsWith('/*')) return found.startsWith(known.slice(0, -1))
  // Documents, packages and books are archives.
  return found === 'application/zip' && known.startsWith('application/')
}

/** Bytes in a text: how many they are, the text they are in, and what they are said to be. */
export interface Bytes {
  readonly size: number
  readonly base64: string
  readonly declared?: string
}

/** The bytes of a data URI in base64; nothing where a text is none. */
export function dataUri(text: string): Bytes | undefined {
  if (!text.startsWith('data:')) return undefined
  const comma = text.indexOf(',')
  const head = comma === -1 || comma > 300 ? '' : text.slice(5, comma)
  if (!head.endsWith(';base64')) return undefined
  const [declared] = head.split(';')
  return {
    ...inBase64(text.slice(comma + 1)),
    ...(declared !== undefined && declared !== '' && { declared }),
  }
}

/** The bytes of base64, which is taken as such without looking at all of it. */
export function inBase64(text: string): Bytes {
  const end = /=*\s*$/.exec(text.slice(-100))?.[0].length ?? 0
  return { size: Math.floor(((text.length - end) * 3) / 4), base64: text }
}

/** Whether a text can be base64, by its first characters. */
export function seemsBase64(text: string): boolean {
  return text.length >= 4 && /^[\w+/-]+={0,2}\s*$/.test(text.slice(0, 200))
}
