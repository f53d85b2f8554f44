/** An element of an XML document, with its attributes. */
export interface XmlElement {
  readonly name: string
  readonly attributes: Readonly<Record<string, string>>
  readonly children: readonly XmlElement[]
}

const token = /<\?xml [^?]*\?>|<(\/?)([\w-]+)((?:\s+[\w-]+="[^"<]*")*)\s*(\/?)>|[^<]+|</y
const references: Readonly<Record<string, string>> = { lt: '<', gt: '>', amp: '&', quot: '"', apos: "'" }

/** The root of a document without comments and namespaces; texts are left out. @throws where it is not well-formed */
export function parseXml(text: string): XmlElement {
  const root: XmlElement[] = []
  const open: { readonly name: string; readonly children: XmlElement[] }[] = [{ name: '', children: root }]
  token.lastIndex = 0
  while (token.lastIndex < text.length) {
    const [all = '', isEnd, name = '', attributes = '', isEmpty] = token.exec(text) ?? []
    if (all.startsWith('<?')) continue
    if (name === '') {
      if (all === '' || all === '<')
        throw new Error(`no markup: ${text.slice(token.lastIndex, token.lastIndex + 40)}`)
      continue
    }
    if (isEnd === '/') {
      if (open.pop()?.name !== name) throw new Error(`</${name}> closes another element`)
      continue
    }
    const children: XmlElement[] = []
    open.at(-1)?.children.push({ name, attributes: attributesIn(attributes), children })
    if (isEmpty !== '/') open.push({ name, children })
  }
  const [first, ...others] = root
  if (!first || others.length > 0 || open.length !== 1)
    throw new Error('there is not one closed root element')
  return first
}

function attributesIn(text: string): Record<string, string> {
  const found = [...text.matchAll(/([\w-]+)="([^"]*)"/g)]
  return Object.fromEntries(found.map(([, name = '', value = '']) => [name, unescaped(value)]))
}

function unescaped(value: string): string {
  return value.replaceAll(/&([^;]*);?/g, (all, name: string) => {
    const code = /^#(\d+)$/.exec(name)?.[1]
    const character = code === undefined ? references[name] : String.fromCodePoint(Number(code))
    if (character === undefined || !all.endsWith(';')) throw new Error(`no character reference: ${all}`)
    return character
  })
}
