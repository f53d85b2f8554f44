import type { YAMLError } from 'yaml'
import type { Finding, Position } from './problem.ts'

/** What a YAML parser complains of, as findings: the first of each line, since the rest follow from it. */
export function syntaxFindings(
  errors: readonly YAMLError[],
  text: string,
  placeOf: (offset: number) => Position,
): Finding[] {
  const lines = new Map<string, Finding>()
  for (const error of errors) {
    const deeper = deeperLine(error, text)
    const place = placeOf(deeper ?? error.pos[0])
    const line = text.split('\n')[place.line - 1] ?? ''
    const isRepeat = error.code === 'DUPLICATE_KEY'
    const key = isRepeat ? `${place.line}:${place.column}` : String(place.line)
    if (!lines.has(key))
      lines.set(key, {
        path: [],
        place,
        message: deeper === undefined ? meaning(error, line, text) : NESTING_PATTERN,
      })
  }
  return [...lines.values()]
}

const NESTING_PATTERN =
  'this is indented further than the line above, which has a value already: align the two, or remove that value'

/**
 * Where a key begins that stands below a value and further to the right, which a parser takes for the rest of the value:
 * it complains of the line above, where nothing is wrong.
 */
function deeperLine({ code, pos: [start] }: YAMLError, text: string): number | undefined {
  if (code !== 'BLOCK_AS_IMPLICIT_KEY' && code !== 'MULTILINE_IMPLICIT_KEY') return undefined
  const line = text.slice(text.lastIndexOf('\n', start - 1) + 1, start)
  const [, rest = '', gap = '', indent = ''] =
    /^([^\n]*)(\n(?:[ ]*(?:#[^\n]*)?\n)*)([ ]*)[^\s#]/.exec(text.slice(start)) ?? []
  const own = /^ */.exec(line)?.[0].length ?? 0
  // A second `: ` on its own line is another mistake.
  if (gap === '' || indent.length <= own || /:\s/.test(rest)) return undefined
  return start + rest.length + gap.length + indent.length
}

// The parser's own words are not used where they repeat a piece of the file, which may be a secret.
function meaning(error: YAMLError, line: string, text: string): string {
  if (error.code === 'DUPLICATE_KEY') return `the key ${keyAt(text, error.pos[0])} is given twice: keep one`
  if (/[{[,].*\$\{/.test(line)) return 'a ${…} inside { } or [ ] must be quoted: "${NAME}"'
  return meanings[error.code] ?? 'this is not valid YAML'
}

function keyAt(text: string, offset: number): string {
  return JSON.stringify(/^[\w-]+/.exec(text.slice(offset))?.[0] ?? 'here')
}

const meanings: Partial<Record<YAMLError['code'], string>> = {
  ALIAS_PROPS: 'an alias cannot have an anchor or tag',
  BAD_ALIAS: 'this alias is not valid',
  BAD_DQ_ESCAPE: 'this backslash escape is not valid in double quotes: use single quotes, or write \\\\',
  BAD_INDENT: 'the indentation does not fit the lines above',
  BAD_SCALAR_START: 'a value cannot start with this character: put it in quotes',
  BLOCK_AS_IMPLICIT_KEY: 'there is a second `: ` on this line: put the value in quotes',
  BLOCK_IN_FLOW: 'a block value cannot stand inside { } or [ ]',
  MISSING_CHAR: 'something is missing here: a closing quote or bracket, or the colon after a key',
  MULTILINE_IMPLICIT_KEY: 'a key must be on one line: a colon may be missing',
  MULTIPLE_ANCHORS: 'a value can have only one anchor',
  MULTIPLE_DOCS: 'the file must hold one document: remove this `---` and what follows',
  MULTIPLE_TAGS: 'a value can have only one tag',
  TAB_AS_INDENT: 'a tab cannot be used for indentation: use spaces',
  TAG_RESOLVE_FAILED:
    'this tag is not known and has no effect: remove it, or put a value that starts with ! in quotes',
  UNEXPECTED_TOKEN:
    'this was not expected here: a quote, bracket or colon may be missing or in the wrong place',
}
