// What outlives a reload, or is seen by several gateways of one process, has an owner (`durable/process-scope.ts`). A module
// has none, so it may have no state, except for reasons that are listed here.
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'

const root = join(import.meta.dirname, '../../src')

const byIdentity =
  'A cache by the identity of its key, from which its values are computed; it ends with the key.'
const byText =
  'A cache whose values are computed from the texts that are its keys, of which it has a limited number.'
const scratch = 'Used within one synchronous computation.'
const tables = 'A table that is filled when the module is loaded.'
const ofSystem = 'Belongs to the process of the operating system'

/** Why a module has state, by its file and the name of a binding. */
const allowed: Readonly<Record<string, string>> = {
  'core/judgement/classify.ts known': tables,
  'core/judgement/surroundings.ts known': byIdentity,
  'core/masked-arguments.ts known': byIdentity,
  'core/payload.ts quotedKeys': byText,
  'core/schema/schema.ts characters': byText,
  'core/schema/schema.ts checks': byText,
  'core/schema/schema.ts compileProblems': byText,
  'core/schema/schema.ts engines': 'Compilers, which keep nothing of a schema but code.',
  'core/schema/schema.ts steps': scratch,
  'core/seal.ts keyObjects': byIdentity,
  'core/text/pattern.ts patterns': byText,
  'core/text/pattern.ts properties': byText,
  'core/text/secret.ts known': byText,
  'core/time/waiting.ts lastSecond': byText,
  'core/time/waiting.ts lastText': byText,
  'core/tool-call.ts keyArguments': byIdentity,
  'core/tool-call.ts known': byIdentity,
  'core/tool-call.ts strippedArguments': 'Belongs to the call whose fields are the key.',
  'core/undo/judge-undo.ts known': byIdentity,
  'core/undo/name-readings.ts known': byIdentity,
  'core/undo/rules.ts rules': byIdentity,
  'core/undo/selectors.ts trialFields': byIdentity,
  'core/world.ts requests': `${ofSystem}: no two requests of it have the same id.`,
  'core/world.ts world': `${ofSystem}, which a simulation replaces as a whole and brings back.`,
  'downstream/http/ending.ts ending': `${ofSystem}: what one turn of its event loop ends.`,
  'downstream/pages/front-page.ts renderedTools': byIdentity,
  'observability/audit/file-lock.ts held': `${ofSystem}: a lock says only which one holds it.`,
  'durable/members.ts localTokens': `${ofSystem}: only it knows which gateways with its id have ended.`,
  'durable/process-scope.ts owned': 'Holds the state of objects, by their identity.',
  'features/describing/documents.ts partialDescriptions': byIdentity,
  'features/events/sources/relayed.ts keys': byIdentity,
  'protocol/meta-keys.ts keys': byText,
  'protocol/schema-repair.ts repairs': byText,
  'protocol/spooling.ts SIMPLE_ESCAPES': tables,
  'records/principal.ts hashes': byText,
  'records/transactions.ts pagesOf': byIdentity,
  'testkit/prove/copies.ts existing': `${ofSystem}: its exit deletes all copies.`,
  'testkit/prove/copies.ts process.on': `${ofSystem}: its exit deletes all copies.`,
  'upstream/transport/child.ts process.on': `${ofSystem}: its exit ends all children.`,
  'upstream/transport/child.ts running': `${ofSystem}: its exit ends all children.`,
}

/** Names that are bound again within a function, or stand in a text; none of them is changed by its module. */
const notState = [
  'core/tool-call.ts names',
  'gateway/approval-app.ts last',
  'testkit/conversations.ts client',
]

const binding = /^(?:export )?(const|let) (\w+)\b(.*)/gm
const effect = /^(?:world\.)?(set(?:Interval|Timeout|Immediate)|process\.(?:on|once)|\w+\.addListener)\(/gm
const constructed = /= new (?!Map\b|Set\b|RegExp\b|Uint8Array\b|GatewayError\b)\w+/
/** A slot is a key: `set` changes nothing of it. */
const slot = /^ = new Slot</
const empty = /= (?:new (?:Map|Set)(?:<.*>)?\(\)|\[\])$/

/** Whether a file changes what a name of its module stands for. */
function isChanged(name: string, text: string): boolean {
  const member = String.raw`(?:\.\w+|\[[^\]\n]+\])`
  const method = String.raw`\.(?:set|add|delete|clear|push|pop|shift|unshift|splice|fill|sort|reverse)\(`
  const assignment = String.raw`${member} (?:[-+*/|&?]{0,2})=(?![=>])|\.\w+(?:\+\+|--)`
  const replaced = String.raw`Object\.(?:assign|defineProperty)\(${name}, `
  const changed = String.raw`(?<![.\w#])${name}${member}*?(?:${method}|${assignment})`
  return new RegExp(`${replaced}|${changed}`).test(text)
}

/** The state of a module: bindings at its top level that can change, and what runs when it is loaded. */
function stateIn(text: string): readonly string[] {
  const bindings = [...text.matchAll(binding)].flatMap(([, kind, name = '', rest = '']) => {
    if (slot.test(rest)) return []
    const canChange = kind === 'let' || constructed.test(rest) || empty.test(rest) || isChanged(name, text)
    return canChange ? [name] : []
  })
  return [...bindings, ...[...text.matchAll(effect)].map(([, name = '']) => name)]
}

it('modules have no state but what is listed here with a reason', () => {
  const files = globSync('**/*.ts', { cwd: root })
  expect(files.length).toBeGreaterThan(300)
  const found = files.flatMap((file) =>
    stateIn(readFileSync(join(root, file), 'utf8')).map((name) => `${file} ${name}`),
  )
  expect(found.toSorted()).toEqual([...Object.keys(allowed), ...notState].toSorted())
})

it.each([
  ['let last = 0', 'last'],
  ['export let last: string | undefined', 'last'],
  ['const known = new Map<string, Map<string, number>>()', 'known'],
  ['const known = new WeakMap<object, string>()', 'known'],
  ['export const live = new Registry<number, Running>()', 'live'],
  ['const all: string[] = []', 'all'],
  ['const counts: Record<string, number> = {}\n  counts[name] = 1', 'counts'],
  ["const seen = new Set(['a'])\n  if (isNew) seen.add('b')", 'seen'],
  ['const life = { count: 0 }\n  life.count += 1', 'life'],
  ['const life = { count: 0 }\n  life.count++', 'life'],
  ['const slots = [0, 0]\n  slots[at] = 1', 'slots'],
  ['const all = { ...some }\n  Object.assign(all, other)', 'all'],
  ['setInterval(() => tick(), 500).unref()', 'setInterval'],
  ["process.on('exit', () => {", 'process.on'],
])('the check finds the state in %j', (text, name) => {
  expect(stateIn(text)).toEqual([name])
})

it.each([
  "const verbs = new Set('add remove'.split(' '))",
  "const titles: Readonly<Record<string, string>> = { a: 'b' }",
  'function all(): string[] {\n  const found = []\n  found.push(1)\n  let last = 0\n}',
  'const limits = { size: 1 }\n  return size >= limits.size',
  'export const make = (): Map<string, string> => new Map()',
])('the check finds no state in %j', (text) => {
  expect(stateIn(text)).toEqual([])
})
