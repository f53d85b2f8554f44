/**
 * Which tools set a context: something that their server keeps in memory for whoever calls it, and that later calls rely on, such
 * as the page of a browser, a chosen database, or a signed-in account. Only names of tools say it: a verb, and for most verbs the
 * thing that they set. What is kept on disk or in a database, such as a file, an entity or a branch, is no context.
 */
import { wordSet, wordsOf } from '../text/words.ts'
import { verbClass } from './lexicon.ts'

/** Verbs that set a context whatever their object is. */
const always = wordSet('navigate goto login logon signin authenticate chdir cd')

/** What is kept for a session. Words before it may say which one: `set_active_project`. */
const kept = wordSet(
  'session connection context page tab browser window frame database db schema workspace project account profile tenant',
  'organization org environment env device emulator cluster namespace transaction debugger terminal shell repl process',
  'directory dir folder cwd server host target',
)
/** What is set if it is the one in use, or begun. */
const ofVerb: ReadonlyMap<string, ReadonlySet<string>> = new Map(
  [
    ['use select switch activate', [...kept]],
    [
      'open launch attach',
      [
        ...wordSet(
          'session connection page tab browser window database db project workspace terminal shell process device emulator app debugger',
        ),
      ],
    ],
    ['connect', [...kept, '']],
    [
      'start begin new init',
      [...wordSet('session connection page tab browser transaction debugger terminal shell repl process')],
    ],
    ['create', [...wordSet('session connection page tab browser')]],
    ['set', [...wordSet('session context')]],
  ].flatMap(([verbs, things]) =>
    String(verbs)
      .split(' ')
      .map((verb) => [verb, new Set(things)] as const),
  ),
)
/** Words that make "set" choose what is in use: `set_active_project`, `set_working_directory`. */
const inUse = wordSet('active current default working')
/** Phrases of two words that are one verb. */
const phrases = /\b(?:sign|log) (in|on)\b/

/** Whether the name of a tool says that it sets a context. */
export function setsContext(name: string): boolean {
  const words = wordsOf(name)
  if (phrases.test(words.join(' ')) && !readsBefore(words, words.length)) return true
  return words.some((word, index) => !readsBefore(words, index) && isSetting(word, words.slice(index + 1)))
}

function isSetting(verb: string, rest: readonly string[]): boolean {
  if (always.has(verb)) return true
  const thing = rest.at(-1) ?? ''
  if (verb === 'set' && rest.some((word) => inUse.has(word)) && kept.has(thing)) return true
  // At most one word says which one: "select page", "use named database", but not "open all pages of issue".
  return rest.length <= 2 && ofVerb.get(verb)?.has(thing) === true
}

/** Whether a word before says that the name is about reading: "list login attempts". */
function readsBefore(words: readonly string[], end: number): boolean {
  return words.slice(0, end).some((word) => verbClass(word) === 'read' && !ofVerb.has(word))
}
