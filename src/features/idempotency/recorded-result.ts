/** Results as they are recorded. */
import { isObject } from '../../core/json/json.ts'
import type { Payload } from '../../core/payload.ts'
import { REFERENCE_KEY, REFERENCES_KEY } from '../../protocol/meta-keys.ts'

/** The member of the facts of kept data that is a credential, and expires long before the record. */
const URL_MEMBER = 'access_url'

/** A result without the URLs of kept data. */
export function recordedResult(result: Payload): Payload {
  if (result.meta(REFERENCE_KEY) === undefined) return result
  return withoutUrls(result).withItems('content', withoutUrls)
}

/** A result or a content block. */
function withoutUrls(given: Payload): Payload {
  const changes = [REFERENCE_KEY, REFERENCES_KEY].flatMap((key) => {
    const facts = given.meta(key)
    const short = Array.isArray(facts) ? facts.map(withoutUrl) : withoutUrl(facts)
    return facts === undefined ? [] : [[key, short] as const]
  })
  return changes.length === 0 ? given : given.withMeta(Object.fromEntries(changes))
}

function withoutUrl(facts: unknown): unknown {
  if (!isObject(facts)) return facts
  const { [URL_MEMBER]: _url, ...rest } = facts
  return rest
}
