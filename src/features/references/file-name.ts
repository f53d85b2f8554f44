/** Names of files for kept data: in ASCII, as any system and server takes them. */

/** The length of a name, in characters. */
const MAX_LENGTH = 100

/** The ends of the names of files, where the media type does not say them. */
const endings: Readonly<Record<string, string>> = {
  'application/gzip': 'gz',
  'application/octet-stream': 'bin',
  'application/javascript': 'js',
  'application/msword': 'doc',
  'application/vnd.ms-excel': 'xls',
  'application/vnd.openxmlformats-officedocument.presentationml.presentation': 'pptx',
  'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet': 'xlsx',
  'application/vnd.openxmlformats-officedocument.wordprocessingml.document': 'docx',
  'audio/mpeg': 'mp3',
  'image/jpeg': 'jpg',
  'image/svg+xml': 'svg',
  'text/javascript': 'js',
  'text/markdown': 'md',
  'text/plain': 'txt',
  'text/tab-separated-values': 'tsv',
}

/** The name of a file with data of a media type, by what people call the data. */
export function fileName(name: string, type: string): string {
  const plain = name.replaceAll(/[^A-Za-z0-9._-]+/g, '_').replace(/^[._-]+/, '')
  const [, stem = plain, ending = endingOf(type)] = /^(.+)\.([A-Za-z0-9]{1,10})$/.exec(plain) ?? []
  return `${stem.slice(0, MAX_LENGTH - ending.length - 1) || 'data'}.${ending}`
}

/** The end of a file's name, from its media type. */
export function endingOf(type: string): string {
  const [bare = ''] = type.toLowerCase().split(';', 1)
  const known = Object.hasOwn(endings, bare.trim()) ? endings[bare.trim()] : undefined
  if (known !== undefined) return known
  const [, suffix] = /\+([a-z0-9]{1,10})$/.exec(bare.trim()) ?? []
  const [, subtype] = /^[a-z]+\/(?:x-)?([a-z0-9]{1,10})$/.exec(bare.trim()) ?? []
  return suffix ?? subtype ?? 'bin'
}
