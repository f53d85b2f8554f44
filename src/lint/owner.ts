import type { About } from '../core/record.ts'
import type { ToolWords } from '../core/settings.ts'
import { settingOf } from '../core/tool-settings.ts'
import type { Subject } from './subject.ts'

/** Something documents leave out, or can only guess from names, unless the owner of the server says it. */
export interface OwnersWord {
  /** The key under `upstreams.<name>` where it is said. */
  readonly key: string
  readonly text: string
  /** Of how much it is said: of the server, or of so many of its tools. */
  readonly said: number
  readonly of: number
}

/** What only the owner of a server knows, and how much of it the configuration says. */
export function ownersWords({ settings, tools }: Pick<Subject, 'settings' | 'tools'>): OwnersWord[] {
  const ofServer = serverKeys.map(([key, name, text]): OwnersWord => {
    return { key, text, said: settings.about[name] === undefined ? 0 : 1, of: 1 }
  })
  const ofTools = toolKeys.map(([key, text]): OwnersWord => {
    const said = tools.filter(({ name }) => settingOf(settings.tools, name, key) !== undefined)
    return { key: `tools.*.${key}`, text, said: said.length, of: tools.length }
  })
  return [...ofServer, ...ofTools.filter((each) => each.of > 0)]
}

const serverKeys: readonly (readonly [key: string, name: keyof About, text: string])[] = [
  ['about', 'about', 'what it is for, in a sentence'],
  ['use_when', 'useWhen', 'what users ask for when it is the right one'],
  ['not_for', 'notFor', 'what it is not for'],
  ['cli', 'cli', 'a command line tool for the same'],
  ['api', 'api', 'an API for the same'],
  ['web', 'web', 'a web page for the same'],
  ['install', 'install', 'how it is installed, where its command does not say'],
  ['homepage', 'homepage', 'its home page'],
  ['repository', 'repository', 'where its source is'],
]

const toolKeys: readonly (readonly [key: keyof ToolWords | 'cost', text: string])[] = [
  ['cost', 'what a call costs'],
  ['cli', 'the same on a command line'],
  ['api', 'the same as a request'],
  ['examples', 'calls with what comes back'],
  ['effects', 'what it changes besides'],
]
