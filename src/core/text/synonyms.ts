/** Synonyms of words in tool names. */
import { stem } from './words.ts'

/** The synonyms of a word, as stems: queries and tool names often use different words for the same action. */
export function synonymsOf(word: string): readonly string[] {
  return synonyms.get(word) ?? []
}

/** The kind of action of a word, given as a stem; undefined for most words. */
export function actionOf(word: string): string | undefined {
  return actions.get(word)
}

/** Words that are interchangeable in tool names and queries. */
const groups = [
  // Actions.
  'create add make new generate register insert post leave put',
  'append add attach insert',
  'delete remove erase forget discard destroy drop trash clear wipe purge unlink',
  'update edit change modify alter patch revise set adjust replace',
  'get retrieve read fetch load show view return obtain receive',
  'read open view see show print dump display',
  'list show display enumerate browse all',
  'find search look query locate lookup discover match',
  'move rename relocate transfer shift',
  'copy duplicate clone replicate',
  'write save store put record persist',
  'remember memorize store record note add',
  'send post publish submit deliver dispatch email message',
  'start begin launch trigger run execute initiate kick',
  'stop end halt cancel abort terminate quit finish',
  'close shut end exit',
  'toggle switch turn enable disable activate deactivate',
  'navigate go visit browse open',
  'click press push tap hit',
  'select choose pick',
  'type enter input write fill',
  'fill complete enter',
  'upload attach import',
  'download export save',
  'wait pause sleep delay await',
  'take capture grab snap shoot',
  'run execute evaluate invoke perform',
  'compress zip gzip pack archive shrink',
  'extract unzip unpack decompress expand',
  'repeat echo mirror',
  'sum add total plus addition',
  'count number tally',
  'calculate compute evaluate',
  'check verify validate test inspect examine',
  'connect link relate associate join attach',
  'assign give allocate',
  'approve accept confirm allow',
  'reject decline deny refuse dismiss',
  'resize scale size',
  'schedule plan book reserve arrange',
  'translate convert transform',
  'summarize summary digest',
  'reply respond answer',
  'merge combine join unite',
  'sort order rank',
  'invite add share',
  'deploy release publish ship',
  'subscribe follow watch monitor',
  'lock freeze block',
  'buy order purchase pay',
  // Objects.
  'folder directory dir',
  'file document doc',
  'picture image photo screenshot',
  'photo image media audio video',
  'link connection relation relationship association edge',
  'link url uri address href',
  'website site page web',
  'entity node object item thing',
  'person people user member human contact',
  'user account profile member',
  'comment remark discussion feedback',
  'fact observation note remark statement',
  'text content words string body',
  'size big large length bytes',
  'environment env variable',
  'configuration config setting preference option',
  'log message output',
  'bug issue ticket defect problem',
  'task todo job',
  'meeting event appointment calendar',
  'row record entry item',
  'column field property attribute',
  'field property attribute',
  'dropdown select option menu',
  'colour color',
  'repository repo',
  'detail info information metadata',
  'metadata info attribute property',
  'version revision release',
  'history log past',
  'error failure exception',
  'weather forecast temperature',
  'time date clock when',
  'price cost amount',
  'customer client',
  'mail email message',
  'keyboard key',
  'request call',
  'tree hierarchy structure recursive nested',
  'graph network',
  'structure schema layout',
  // Properties.
  'several multiple many various batch bulk',
  'whole entire complete full all',
  'allowed permitted accessible authorized',
  'previous back last earlier',
  'current active now present',
  'similar related like',
]

const synonyms = tableOf(groups)

function tableOf(lines: readonly string[]): ReadonlyMap<string, readonly string[]> {
  const found = new Map<string, Set<string>>()
  for (const line of lines) {
    const words = line.split(' ').map(stem)
    for (const word of words) {
      const known = found.get(word) ?? new Set()
      words.filter((other) => other !== word).forEach((other) => known.add(other))
      found.set(word, known)
    }
  }
  return new Map([...found].map(([word, others]) => [word, [...others]]))
}

const actions: ReadonlyMap<string, string> = new Map(
  Object.entries({
    read: 'get retrieve read fetch load show view list display print dump search find query look describe check inspect download browse',
    create: 'create add make generate insert append post write save remember upload send publish',
    update: 'update edit change modify alter patch revise rename move replace set',
    delete: 'delete remove erase forget discard destroy drop trash purge wipe',
  }).flatMap(([action, words]) => words.split(' ').map((word) => [stem(word), action] as const)),
)
