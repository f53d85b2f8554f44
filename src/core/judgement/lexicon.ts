/**
 * The verbs in names and descriptions of tools, each with the worst effect it commonly has.
 *
 * An unlisted verb is no evidence: it never makes a tool harmless. Words that are as often nouns (`commit`, `release`,
 * `run`) are marked, because after a reading verb they name what is read.
 */
import { wordSet } from '../text/words.ts'

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
    analyse analyze assert assess audit autocomplete average benchmark browse calculate cat check
    classify collect compare compute consult contrast convert count crawl debug decode decrypt define
    describe detail detect determine diagnose diff dig discover display divide download dump echo encode
    enumerate estimate examine expect explain explore extract fetch filter find flip forecast format
    gather geocode get glob greet grep guess hash head identify infer info inspect interpret introduce
    introspect investigate iterate learn lint list load locate lookup ls match measure monitor multiply
    obtain outline paginate paraphrase parse peek peruse ping plot poll predict preview print probe
    profile proofread qualify query rank read recall recognize recommend render report research resolve
    retrieve return roll round sample say scan score scrape search see show shuffle  sniff solve
    sort stat status stringify subtract suggest sum summarise summarize survey tail tally test tokenize
    trace traceroute transcribe translate transliterate traverse tree troubleshoot typecheck validate
    verify view visualize watch weigh whoami whois`,
  session: `
    ask authenticate back capture connect emulate focus forward goto highlight hover login navigate
    reauthenticate refocus reload resize screenshot scroll select sequentialthinking signin sleep
    snapshot step switch think unzoom visit wait zoom`,
  write: `
    ack acknowledge activate add adjust adopt align allocate animate annotate answer append apply
    appoint archive arrange assign associate attach attest autofix backfill backup bind bisect book
    bookmark branch build bump calibrate categorize certify change checkin checkout cherrypick click
    clone collapse comment commit compile complete compose compress configure copy create crop customize
    dblclick decompress decorate decrement deduplicate defer defragment delay designate disable dock
    doubleclick draft drag draw dub duplicate edit embed enable encrypt endorse engage enqueue enrich
    enroll escalate establish expand export extend extrude favorite feedback fill fix flag follow fork
    fuse generate grade graduate group hide ignore import increment index ingest init initialize inject
    insert install instantiate integrate invert join label lift link lock log make map mark maximize
    memorize mention minimize mirror mix mkdir modify mount move nudge onboard open optimize organize
    paint paste patch persist pin plan play populate pose post postpone preload prepare press produce
    propose provision pull put queue raise react reassign recategorize recenter reconfigure reconnect
    record redact redirect redo reduce refine reformat refresh register rehydrate reindex reinstate
    reissue relabel relink remap remember rename reopen reorder repair replay reposition request rerun
    reschedule reserve respond resubmit resume retag retouch retry rewind rewrite route sanitize save
    scaffold schedule seed set setup shift shorten shrink simplify simulate skip slide smooth snooze split stage
    star start stash store stretch submit subscribe swipe sync synchronize tag tap teach thaw tint
    toggle touch track transcode transform transition trim tune turnon type unarchive uncheck undelete
    unfollow unfreeze ungroup unhide unify unlock unmute unpack unpin unsnooze unspam unstage unstar
    unstash unwrap unyank unzip update upload upsert upvote vacuum vote warm warp water weld wrap write
    zip`,
  soft: `
    accept agree alter ban block cancel clear close confirm consent cordon cut deactivate decline
    delegate demote detach disassociate discharge disconnect dismiss dose downvote drill eject engrave
    exclude expel freeze hoist ignite infuse kick leave mute reclassify reject relocate reprocess reset
    restore scale seek silence suppress taint unassign unban unbind unbond undelegate undock
    unlabel unlink unmount unset unshare unsubscribe untag`,
  destructive: `
    abandon abort amend annihilate attack bruteforce clean cleanse cleanup crack cutover deallocate
    deauth decommission del delete deploy deprecate deprovision deregister destroy detonate disarm
    disband discard disenroll dissolve downgrade drain drop empty erase evict expire exploit expunge
    failback failover fire flash flatten flood flush flushall flushdb force fuzz halt hdel hibernate
    hijack incinerate invalidate kill liquidate lockdown logout lrem ltrim merge migrate nuke obliterate
    offboard overwrite pause phish poison power powercycle poweroff promote prune purge push quarantine
    reap rebase reboot rebuild recreate recycle redeploy reimage reinstall release remediate remove
    repartition replace restart retire revert revoke rm rmdir rollback rollforward rollout rotate scrub
    seal shred shutdown spoof squash srem stop strip sunset suspend swap switchoff switchover takeoff
    tamper teardown terminate trash truncate turnoff undeploy undo uninstall unpublish unregister unseal
    unsend upgrade vacate wipe withhold yank zap zrem`,
  outward: `
    airdrop announce approve bet bid borrow bridge broadcast burn buy cashout charge claim contribute
    debit deliver deposit dial disburse dispatch dm donate email finalize fulfill fund fundraise gamble
    gift hire invite lend mail mint notarize notify order pay payout pledge publish purchase ratify
    redeem redelegate refund reimburse remind remit renew repay reply repost resend retweet rsvp sell
    send settle share ship sign sms spend stake tip topup trade transact transfer tweet unstake wager
    wire withdraw`,
  admin: `
    admin authorize billing config grant impersonate member permission permit role sudo
    whitelist`,
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
const nouns = wordSet(`
    admin answer archive arrange attack audit average back backup ban benchmark bet bid billing block
    book borrow branch bridge build burn call cat change charge check claim clear clone close comment
    commit config copy cordon count crack crop cut debug decline delay deploy deposit diff display dm
    dose drain draw drill drop dump email embed empty erase eval exec exploit export extract feedback
    filter fire fix flag flash flip flood focus force forecast fork form format forward freeze fund gift
    group guess halt hash head hide import index info invite join kick label launch lend lift link list
    load lock log login mail map mark match measure member mention merge mint mirror mix mount move mute
    order outline paint paste patch pause pay permission permit pin plan play pledge poison pose post
    power press print probe profile pull purchase push query queue rank react recall record redirect
    refund release replace reply report request research reset respond restore role roll rollback
    rollout rotate round route rsvp run sample scale scan schedule score screenshot script seal search
    seed seek select set setup share shell shift ship sign silence skip slide sms snapshot sniff sort
    spawn spend split squash stage stake star start stash stat status stop store strip sudo sum sunset
    survey swap switch sync tag taint tally tap test tip touch trace track trade transact transfer
    transform transition trash tree trim tweet type update upgrade vacuum view vote wager wait
    watch whitelist wire withhold wrap yank zap zip
`)

/** Verbs after which the rest of a name is what they read. */
const governing = wordSet(`
    analyze browse calculate check collect compare count describe detail download enumerate estimate explain
    fetch find get inspect list lookup preview read retrieve search see show stat status summarize validate
    verify view watch
`)

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

/** Verbs of two words, and the verb that means the same. */
const phrases = new Map(
  Object.entries({
    rollback: 'roll back, revert to',
    rollout: 'roll out',
    shutdown: 'shut down, power down, spin down',
    teardown: 'tear down, take down, bring down',
    turnoff: 'turn off, switch off, power off',
    turnon: 'turn on, switch on',
    cleanup: 'clean up, clear out',
    wipe: 'wipe out, factory reset, blow away',
    backup: 'back up',
    setup: 'set up',
    failover: 'fail over',
    lookup: 'look up',
    create: 'spin up, stand up',
    logout: 'log out, sign out',
    stop: 'hang up, give up',
    retire: 'phase out',
    unsubscribe: 'opt out',
    cashout: 'cash out',
    payout: 'pay out',
    topup: 'top up',
    lockdown: 'lock down',
    start: 'kick off',
    checkin: 'check in',
    checkout: 'check out',
    approve: 'sign off',
    remove: 'get rid',
    dial: 'make call, place call',
  }).flatMap(([verb, texts]) => texts.split(', ').map((text) => [text, verb] as const)),
)

/** The words of a name or sentence, with one word for each verb of two words. */
export function withPhrases(words: readonly string[]): string[] {
  const found: string[] = []
  for (const word of words) {
    const verb = phraseOf(found.at(-1), word)
    if (verb === undefined) found.push(word)
    else found[found.length - 1] = verb
  }
  return found
}

/** "Roll back", "looks up". */
function phraseOf(before: string | undefined, word: string): string | undefined {
  if (before === undefined) return undefined
  const first = before.toLowerCase()
  const second = word.toLowerCase().replace(/[^a-z]+$/, '')
  return phrases.get(`${first} ${second}`) ?? phrases.get(`${first.replace(/s$/, '')} ${second}`)
}

interface Contextual {
  readonly objects: ReadonlySet<string>
  /** What the verb means with one of the objects, and what it means otherwise. */
  readonly meaning: string
  readonly otherwise: string
}

/** A verb that changes a sheet, and otherwise reads. */
function onSheet(verb: string): Contextual {
  const objects = wordSet(
    'range sheet cell cells column columns row rows worksheet workbook spreadsheet playlist tabs',
  )
  return { objects, meaning: 'change', otherwise: verb }
}

/** Verbs whose object decides whether they read. */
const contextual: Readonly<Record<string, Contextual>> = {
  resolve: {
    objects: wordSet(
      `name names address addresses dns domain host hostname id ids url urls uri library symbol symbols path reference
       references handle username ens ip did location entity type dependency dependencies module package link alias
       redirect query`,
    ),
    meaning: 'lookup',
    otherwise: 'complete',
  },
  format: {
    objects: wordSet(
      `text code date dates json number numbers sql string markdown address currency xml yaml html time phone value
       output source citation bibliography name file files response prompt`,
    ),
    meaning: 'format',
    otherwise: 'change',
  },
  clear: {
    objects: wordSet('cache caches filter filters selection formatting highlight highlights search'),
    meaning: 'change',
    otherwise: 'clear',
  },
  simulate: {
    objects: wordSet(
      'policy policies principal transaction transactions cost costs impact permission permissions',
    ),
    meaning: 'compute',
    otherwise: 'simulate',
  },
  sort: onSheet('sort'),
  filter: onSheet('filter'),
  reverse: onSheet('reverse'),
  flip: { objects: wordSet('coin coins'), meaning: 'flip', otherwise: 'change' },
  define: {
    objects: wordSet('word words term terms meaning phrase concept acronym'),
    meaning: 'define',
    otherwise: 'create',
  },
  load: {
    objects: wordSet(
      'model plugin extension program scene project workspace session rom module firmware preset cartridge level',
    ),
    meaning: 'open',
    otherwise: 'load',
  },
  extract: {
    objects: wordSet('archive archives zip tar tarball bundle package'),
    meaning: 'unpack',
    otherwise: 'extract',
  },
  fetch: {
    objects: wordSet('git refs remote remotes origin upstream'),
    meaning: 'pull',
    otherwise: 'fetch',
  },
  report: {
    objects: wordSet(
      'user abuse spam bug issue incident message violation problem fraud absence comment content player listing',
    ),
    meaning: 'submit',
    otherwise: 'report',
  },
}

/** A verb as its object makes it: "resolve a name" looks up, "resolve an incident" completes. */
export function inContext(verb: string, objects: readonly string[]): string {
  const found = Object.hasOwn(contextual, verb) ? contextual[verb] : undefined
  if (!found) return verb
  return objects.some((word) => found.objects.has(word)) ? found.meaning : found.otherwise
}

/** Nouns that name an action, and its verb. */
const actions = new Map(
  Object.entries({
    delete: 'deletion deletions',
    remove: 'removal removals eviction',
    close: 'closure closing',
    terminate: 'termination',
    destroy: 'destruction',
    cancel: 'cancellation',
    create: 'creation',
    execute: 'execution',
    install: 'installation',
    uninstall: 'uninstallation',
    modify: 'modification modifications',
    revoke: 'revocation',
    approve: 'approval approvals',
    grant: 'granting',
    publish: 'publication',
    pay: 'payment payments',
    suspend: 'suspension',
    deactivate: 'deactivation',
    restore: 'restoration',
    migrate: 'migration',
    deploy: 'deployment',
    erase: 'erasure',
    replace: 'replacement',
    invoke: 'invocation',
    withdraw: 'withdrawal',
    retrieve: 'retrieval',
    search: 'searching',
    list: 'listing',
  }).flatMap(([verb, texts]) => texts.split(' ').map((noun) => [noun, verb] as const)),
)

/** The verb of a noun that names an action, or of a participle: "deletion" and "deleting" are delete. */
export function verbOfAction(word: string): string | undefined {
  const noun = actions.get(word)
  if (noun !== undefined) return noun
  if (!word.endsWith('ing') || word.length < 6) return undefined
  const root = word.slice(0, -3)
  const forms = [root, `${root}e`, ...(root.at(-1) === root.at(-2) ? [root.slice(0, -1)] : [])]
  return forms.find((form) => verbs.has(form))
}

/** Verbs that say nothing of what is done. */
export function isVague(word: string): boolean {
  return vague.has(word)
}

const vague: ReadonlySet<string> = wordSet(`
    act action actions administer control do enable handle interact manage management manager manipulate
    operate operation operations perform process provide support tool use utility work workflow
    administers controls does enables handles manages manipulates operates performs processes provides
    supports uses works offers offer gives give facilitates facilitate interacts
`)
