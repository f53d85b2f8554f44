import type { Op } from './entry.ts'

/** What kind of action a word stands for that the name of a tool begins with; nothing where it is no known verb. */
export function opOfVerb(word: string): Op | undefined {
  return ops.get(word)
}

const verbs: readonly (readonly [Op, string])[] = [
  [
    'read',
    'get list read search find query fetch show describe view count check stat inspect diff lookup browse download',
  ],
  [
    'write',
    'create add post send insert upload register publish append comment invite start open subscribe link update edit set modify patch rename move copy assign transition enable disable lock archive restore',
  ],
  [
    'delete',
    'delete remove drop destroy purge truncate wipe erase revoke uninstall terminate reset overwrite merge force',
  ],
  ['admin', 'grant permission role member billing transfer config admin'],
]
const ops = new Map(verbs.flatMap(([op, words]) => words.split(' ').map((word) => [word, op] as const)))
