/**
 * Verbs that are worse with certain objects than alone: a change of access, of what runs, of money, or of what the public
 * sees.
 */
import { allOf } from './lexicon.ts'
import type { Evidence } from './evidence.ts'
import { wordSet } from '../text/words.ts'

interface Combination {
  readonly verbs: ReadonlySet<string>
  readonly objects: ReadonlySet<string>
  /** Words of which one has to be there too. */
  readonly besides?: ReadonlySet<string>
  /** Words that make it another thing. */
  readonly unless?: ReadonlySet<string>
  readonly isSoft?: true
  text(object: string): string
}

const and = (...sets: readonly ReadonlySet<string>[]): ReadonlySet<string> =>
  new Set(sets.flatMap((each) => [...each]))
const without = (set: ReadonlySet<string>, words: string): ReadonlySet<string> =>
  new Set([...set].filter((word) => !wordSet(words).has(word)))

const writing = allOf('write')
const making = wordSet('create add insert generate make')
/** Changes of what exists. */
const changing = without(
  writing,
  `create generate make insert build clone copy duplicate export fork note comment index log save refresh open
   initialize init setup prepare compile book star join follow pin label tag mark plan compose draft annotate`,
)
const replacing = wordSet(
  'set put edit replace update overwrite write apply modify patch change save configure rewrite',
)

/** What decides who may do what. */
const access = wordSet(
  `policy policies role roles permission permissions acl acls privilege privileges entitlement entitlements iam rbac
   collaborator collaborators owner owners ownership admin admins administrator sso mfa password passwords credential
   credentials firewall ingress egress allowlist whitelist denylist blocklist membership memberships access sharing
   grant grants visibility`,
)

const combinations: readonly Combination[] = [
  {
    // Sent to people when it is posted.
    verbs: wordSet('post create submit reply forward publish respond compose schedule'),
    objects: wordSet('message messages email mail sms tweet dm invitation invite notification payment'),
    unless: wordSet(
      'draft drafts template templates label labels filter rule rules folder folders mailbox box category signature list group',
    ),
    text: (word) => `a ${word} cannot be undone`,
  },
  {
    verbs: wordSet('create submit add upload schedule make write'),
    objects: wordSet('post posts story reel thread toot tweet video short podcast episode listing'),
    unless: wordSet('draft drafts comment comments meeting conference message'),
    text: (word) => `a ${word} is published`,
  },
  {
    verbs: wordSet('forward respond'),
    objects: wordSet('event events meeting appointment invitation'),
    text: () => 'it notifies people, which cannot be undone',
  },
  {
    // Moves money when it is changed.
    verbs: writing,
    objects: wordSet('subscription subscriptions dispute refund charge payout payment payments billing'),
    unless: wordSet(
      'subscriber subscribers resource resources notification notifications alert alerts webhook topic newsletter feed event events calendar pubsub draft link links list',
    ),
    text: (word) => `a change of a ${word} may move money`,
  },
  {
    verbs: wordSet(
      'place create submit open complete execute set update issue book reserve buy add make capture',
    ),
    objects: wordSet(
      'order orders trade trades bet bid purchase booking reservation credit credits price prices payment',
    ),
    unless: wordSet('draft note notes tag tags alert history'),
    text: (word) => `a ${word} commits money or a promise to others`,
  },
  {
    verbs: wordSet('book reserve'),
    objects: wordSet('room flight hotel table ticket tickets appointment seat car ride trip slot'),
    text: (word) => `a booked ${word} is a promise to others`,
  },
  {
    verbs: wordSet('reset regenerate rotate'),
    objects: wordSet(
      'password passwords passphrase secret secrets credential credentials mfa key keys token tokens',
    ),
    text: (word) => `whoever uses the current ${word} is locked out`,
  },
  {
    verbs: wordSet('disable deactivate unset stop pause mute silence turnoff remove'),
    objects: wordSet(
      `backup backups protection encryption mfa 2fa firewall versioning audit auditing replication failover alarm
       alarms alert alerts monitor monitoring logging security`,
    ),
    text: (word) => `it switches off the ${word}`,
  },
  {
    verbs: and(changing, wordSet('move')),
    objects: access,
    unless: wordSet('request requests comment ticket'),
    text: (word) => `it changes who may do what (${word})`,
  },
  {
    verbs: without(changing, 'assign lock unlock request resume retry start transition track'),
    objects: wordSet('member members user users account team group groups'),
    unless: wordSet(
      `comment profile avatar note notes preference preferences settings label tag tab tabs favorite ad address
       agent interface story stories input guide experience contact contacts list card page message messages event task issue mention`,
    ),
    isSoft: true,
    text: (word) => `it may change who may do what (${word})`,
  },
  {
    verbs: making,
    objects: wordSet(
      `collaborator collaborators membership memberships administrator admin credential credentials token tokens
       grant grants apikey ingress egress access allowlist whitelist`,
    ),
    unless: wordSet('design color colour request requests list'),
    text: (word) => `it gives access (${word})`,
  },
  {
    verbs: wordSet('create generate issue make add'),
    objects: wordSet('key keys'),
    unless: wordSet(
      'value values result results kv pair public translation i18n foreign primary point points event',
    ),
    isSoft: true,
    text: (word) => `it may give access (${word})`,
  },
  {
    verbs: and(making, wordSet('attach put')),
    objects: wordSet('policy policies role roles permission permissions binding bindings rule rules'),
    unless: wordSet('draft label filter format formatting validation alert alerting css style create list'),
    isSoft: true,
    text: (word) => `it may give access (${word})`,
  },
  {
    verbs: wordSet('unlock open'),
    objects: wordSet('user users account door doors vehicle car garage gate lock vault safe valve'),
    text: (word) => `it opens a ${word}`,
  },
  {
    verbs: wordSet('move'),
    objects: wordSet(
      'collection collections organization organisation vault tenant arm robot joint motor vehicle',
    ),
    text: (word) => `it moves into, or as, a ${word}`,
  },
  {
    verbs: wordSet('assign attach'),
    objects: wordSet('group groups role roles'),
    isSoft: true,
    text: (word) => `it may change who may do what (${word})`,
  },
  {
    verbs: wordSet('update apply change edit patch'),
    objects: wordSet(
      'stack stacks infrastructure app apps deployment deployments pod endpoint cluster nodepool kernel',
    ),
    isSoft: true,
    text: (word) => `it changes what runs (${word})`,
  },
  {
    verbs: wordSet('write put set'),
    objects: wordSet('cell cells range memory register registers block sector'),
    isSoft: true,
    text: (word) => `the previous ${word} is replaced`,
  },
  {
    verbs: wordSet('schedule book create'),
    objects: wordSet('appointment appointments interview meeting'),
    unless: wordSet('note notes minutes summary template type'),
    isSoft: true,
    text: (word) => `a ${word} is a promise to others`,
  },
  {
    verbs: replacing,
    objects: wordSet(
      `config configuration configurations settings conf configmap env environment variable variables secret secrets
       script scripts code source lambda workflow workflows automation automations webhook webhooks dns record_set
       nameservers hook hooks trigger triggers crontab cron pipeline policy firmware manifest dockerfile vault
       certificate certificates schema rule rules function functions`,
    ),
    isSoft: true,
    text: (word) => `the previous ${word} is replaced`,
  },
  {
    verbs: wordSet('build start retry rerun dispatch queue enqueue submit resume replay request schedule'),
    objects: wordSet(
      'job jobs build builds pipeline pipelines workflow workflows deployment deployments release run runs training migration migrations',
    ),
    unless: wordSet('status log logs list'),
    text: (word) => `it starts a ${word}`,
  },
  {
    verbs: wordSet('build'),
    objects: wordSet('item project'),
    isSoft: true,
    text: () => 'it starts a build',
  },
  {
    verbs: wordSet('install'),
    objects: wordSet(
      `package packages chart helm plugin plugins extension extensions app application apps dependency dependencies
       module software addon add-on apk update updates operator release skill`,
    ),
    text: (word) => `it installs a ${word}, which then runs`,
  },
  {
    verbs: wordSet('create'),
    objects: wordSet('release releases deployment deployments transfer transfers'),
    unless: wordSet('draft note notes'),
    text: (word) => `a ${word} takes effect at once`,
  },
  {
    verbs: wordSet('resize'),
    objects: wordSet(
      'disk volume vm machine instance server cluster droplet partition filesystem pool nfs share storage',
    ),
    text: (word) => `a ${word} is interrupted, or loses data`,
  },
  {
    verbs: wordSet('create edit update set put change modify add'),
    objects: wordSet('record records'),
    besides: wordSet('dns domain zone mx cname nameserver'),
    text: () => 'it changes where a domain points to',
  },
  {
    verbs: wordSet('create provision launch'),
    objects: wordSet('droplet instance instances cluster nodepool gpu gpus'),
    unless: wordSet('template draft type profile'),
    isSoft: true,
    text: (word) => `a ${word} costs money while it runs`,
  },
  {
    verbs: wordSet('call make place initiate start dial'),
    objects: wordSet('service services phone call number print'),
    unless: wordSet('list log logs summary recording random'),
    text: (word) => `it calls a ${word}`,
  },
  {
    verbs: wordSet('print'),
    objects: wordSet('printer document label page receipt'),
    isSoft: true,
    text: (word) => `a printed ${word} cannot be undone`,
  },
  {
    verbs: wordSet('format'),
    objects: wordSet('disk drive volume partition card device filesystem'),
    text: (word) => `the contents of the ${word} are lost`,
  },
  {
    verbs: wordSet('edit put'),
    objects: wordSet('item items entry login'),
    isSoft: true,
    text: (word) => `the previous contents of the ${word} may be lost`,
  },
]

/** What is only written down: "a deployment plan". */
const papers = wordSet(
  'plan plans report reports checklist estimate proposal diagram example examples suggestion suggestions',
)

/** The evidence of a verb with the words that it governs. */
export function objectEvidence(verbs: readonly string[], objects: readonly string[]): readonly Evidence[] {
  if (objects.some((word) => papers.has(word))) return []
  return combinations.flatMap((each): Evidence[] => {
    const object = objects.find((word) => each.objects.has(word))
    if (object === undefined || !verbs.some((verb) => each.verbs.has(verb))) return []
    if (each.besides && !objects.some((word) => each.besides?.has(word))) return []
    if (each.unless && objects.some((word) => each.unless?.has(word))) return []
    return [{ effect: 'destructive', text: each.text(object), ...(each.isSoft && { isSoft: true }) }]
  })
}
