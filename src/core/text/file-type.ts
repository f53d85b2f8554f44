/** Media types of files, by the ends of their names. */

/** Texts whose types their contents do not tell. */
const textTypes: Readonly<Record<string, string>> = {
  json: 'application/json',
  csv: 'text/csv',
  md: 'text/markdown',
  xml: 'application/xml',
  yaml: 'application/yaml',
  yml: 'application/yaml',
}

const fileTypes: Readonly<Record<string, string>> = {
  ...textTypes,
  txt: 'text/plain',
  log: 'text/plain',
  html: 'text/html',
  pdf: 'application/pdf',
  png: 'image/png',
  jpg: 'image/jpeg',
  jpeg: 'image/jpeg',
  gif: 'image/gif',
  webp: 'image/webp',
  svg: 'image/svg+xml',
  zip: 'application/zip',
}

/** The media type of a file, whatever is in it. */
export function fileType(name: string): string {
  return typeOf(name, fileTypes) ?? 'application/octet-stream'
}

/** The media type of a file that is known to be text: its name says no more than which kind of text. */
export function textType(name: string): string {
  return typeOf(name, textTypes) ?? 'text/plain'
}

function typeOf(name: string, types: Readonly<Record<string, string>>): string | undefined {
  const ending = /\.([a-z0-9]+)$/i.exec(name)?.[1]?.toLowerCase() ?? ''
  return Object.hasOwn(types, ending) ? types[ending] : undefined
}
