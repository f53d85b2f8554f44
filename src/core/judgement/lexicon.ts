/**
 * The verbs in names and descriptions of tools, each with the worst effect it commonly has.
 *
 * An unlisted verb is no evidence: it never makes a tool harmless. Words that are as often nouns (`commit`, `release`,
 * `run`) are marked, because after a reading verb they name what is read.
 */

/** How arguments decide the effect of a call. */
export interface Variation {
  /** The effect of a call that uses no argument named in `conditions`. */
  readonly baseEffect: Effect
  /** Uses of arguments that make a call worse than `baseEffect`. */
  readonly conditions: readonly (Evidence & { readonly when: Condition })[]
  /** A call with `true` at this path of its arguments changes nothing. */
  readonly dryRun?: readonly string[]
}

/**
 * Classes of verbs. `outward` verbs reach people or move money, and cannot be undone; `session` effects end by
 * themselves; for `soft` verbs a trusted server may declare that they destroy nothing.
 */
export type VerbClass =
  | 'read'
  | 'session'
  | 'write'
  | 'soft'
  | 'destructive'
  | 'outward'
  | 'admin'
  | 'execute'

const classes: Readonly<Record<VerbClass, string>> = {
  read: `
    analyse analyze audit browse calculate cat check classify collect compare compute convert count
    crawl describe detail detect determine diagnose diff discover display download echo enumerate
    estimate examine explain explore extract fetch find format get glob grep head identify info inspect
    introduce introspect lint list load lookup ls match measure monitor parse peek ping preview print
    profile provide query read recommend render report resolve retrieve return scan scrape search see
    show stat status suggest summarize tail test trace transcribe translate tree validate verify view
    visualize watch whoami`,
  session: `
    ask back capture connect emulate focus forward goto highlight hover navigate reload resize screenshot
    scroll select sequentialthinking sleep snapshot switch think visit wait zoom`,
  write: `
    add adjust allocate annotate answer append apply approve archive assign associate attach bind book
    bookmark branch build categorize change checkout click clone collapse comment commit compile
    complete configure copy create decrement disable draft drag duplicate edit enable export favorite
    feedback fill flag follow fork generate group import increment index init initialize insert install join label
    link lock log make map mark mkdir modify move open patch pin post prepare press provision put queue
    record refresh register reindex rename reorder replay request rerun reserve respond restore resume
    retry rewrite save schedule set setup snooze stage star start stash store submit subscribe
    sync tag toggle touch track transition type unfollow unlock unpin unstage update upload
    upsert upvote vote write`,
  soft: `
    ban block cancel clear close deactivate decline demote detach disconnect dismiss eject exclude kick
    leave mute reject reset scale unassign unbind unlabel unlink unset unsubscribe untag`,
  destructive: `
    abandon abort amend annihilate clean cleanup cutover deallocate decommission del delete deploy
    deprovision destroy discard downgrade drop erase evict expire failover flush flushall flushdb force halt
    hdel hibernate invalidate kill logout lrem ltrim merge migrate obliterate overwrite pause power poweroff
    promote prune purge push quarantine rebase reboot rebuild recreate redeploy release remove replace
    restart revert revoke rm rmdir rollback rotate shutdown squash srem stop suspend swap switchover
    teardown terminate trash truncate undo uninstall unregister upgrade wipe zrem`,
  outward: `
    broadcast buy charge deliver dial dispatch email finalize invite notify order pay payout publish
    purchase refund remit reply send share sms transfer tweet withdraw`,
  admin: `
    admin authorize billing config grant impersonate member permission role`,
  execute: `
    eval evaluate exec execute invoke launch run script shell spawn`,
}

/** A word in two classes belongs to the later class of this list. */
const order: readonly VerbClass[] = [
  'read',
  'session',
  'write',
  'soft',
  'destructive',
  'outward',
  'admin',
  'execute',
]

const verbs = new Map(
  order.flatMap((kind) =>
    classes[kind]
      .trim()
      .split(/\s+/)
      .map((word) => [word, kind] as const),
  ),
)

/** Verbs that are as often nouns: "get a release", "list stashes", "the check run". */
const nouns = new Set(
  `
    admin answer archive audit back ban billing block book branch build call cat change charge check
    clear clone close comment commit config copy count deploy display drop email exec export feedback
    flag focus force fork form format forward group head import index info invite kick label launch link list load
    lock log map mark match member merge move order patch pause pay permission pin power press profile
    purchase push query queue record refund release replace reply report request reset respond restore
    role run scan schedule screenshot script search select set share shell sms snapshot star start stash
    stat status stop store switch tag test trace track transfer transition tree type update upgrade view vote
    wait watch`
    .trim()
    .split(/\s+/),
)

/** Verbs after which the rest of a name is what they read. */
const governing = new Set(
  `
    browse check collect count describe detail download enumerate explain fetch get inspect list lookup
    preview read retrieve see show stat status summarize view watch`
    .trim()
    .split(/\s+/),
)

/** The class of a verb in its base form; undefined if it is not a known verb. */
export function verbClass(word: string): VerbClass | undefined {
  return verbs.get(word)
}

/** All verbs of a class. */
export function allOf(kind: VerbClass): ReadonlySet<string> {
  return new Set([...verbs].filter(([, found]) => found === kind).map(([word]) => word))
}

/** The base form of a verb in the third person ("deletes", "applies", "pushes"), if it is a known verb. */
export function baseVerb(word: string): string | undefined {
  if (verbs.has(word)) return word
  if (!word.endsWith('s') || word.length < 4) return undefined
  const forms = [word.slice(0, -1), ...(word.endsWith('es') ? [word.slice(0, -2)] : [])]
  if (word.endsWith('ies')) forms.push(`${word.slice(0, -3)}y`)
  return forms.find((form) => verbs.has(form))
}

/** Whether a verb is as often a noun. */
export function isNoun(word: string): boolean {
  return nouns.has(word)
}

/** Whether the words after a verb in a name are what it reads. */
export function isGoverning(verb: string): boolean {
  return governing.has(verb)
}

// Evidence: one observation about a tool. Evidence is ranked by its worst effect; a tool is judged by its worst
// evidence that no reassurance overrides.

/** Effects, from harmless to worst. `execute` runs what the caller writes. */
export type Effect = 'read' | 'write' | 'destructive' | 'execute'

/** One observation and its consequence. */
export interface Evidence {
  readonly effect: Effect
  /** For people: a short clause, as in `its name says "delete"`. */
  readonly text: string
  /** A trusted server may override it with `destructiveHint: false`. */
  readonly isSoft?: true
  /** It applies only to calls that use this argument in this way. */
  readonly when?: Condition
  /** The verb it is based on, if any. */
  readonly verb?: string
  /** It is based on the tool's name, which annotations do not override. */
  readonly isName?: true
}

/** How a call has to use an argument for evidence to apply. */
export interface Condition {
  /** The argument, as a path if it is nested: `params.force`. */
  readonly argument: string
  readonly path: readonly string[]
  /**
   * `given`: it is present and not false, null or empty; `value`: it has exactly this value; `stores`: a pipeline that
   * writes.
   */
  readonly is: 'given' | 'value' | 'stores'
  readonly value?: unknown
}

/** Ranks of effects, for comparison. */
export const effectRanks: Readonly<Record<Effect, number>> = { read: 0, write: 1, destructive: 2, execute: 3 }

/** The worse of two effects. */
export function worse(one: Effect, other: Effect): Effect {
  return effectRanks[one] >= effectRanks[other] ? one : other
}
