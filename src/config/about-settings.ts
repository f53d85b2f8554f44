import type { About, Cost } from '../core/record.ts'
import type { IntentRule, Recommendation } from '../core/settings.ts'
import { costCategories } from './about-schema.ts'
import { given } from './given.ts'

/** What the owner of a server says of it, as it is written. */
export interface AboutValues {
  readonly about?: string
  readonly use_when?: string | readonly string[]
  readonly not_for?: string | readonly string[]
  readonly emoji?: string
  readonly access?: About['access']
  readonly cli?: string
  readonly api?: string
  readonly web?: string
  readonly install?: About['install']
  readonly requires?: Readonly<Partial<Record<'auth' | 'env' | 'scopes', string | readonly string[]>>>
  readonly homepage?: string
  readonly repository?: string
  readonly status_page?: string
  readonly documentation?: string
  readonly intent: readonly IntentRule[]
  readonly recommend: readonly (Omit<Recommendation, 'registryUrl' | 'authFlow'> & {
    readonly registry_url?: string
    readonly auth_flow?: string
  })[]
}

/** What the owner of a server says of it. */
export function aboutSettings(values: AboutValues): About {
  const { about, emoji, access, cli, api, web, install, homepage, repository, documentation } = values
  const { use_when: useWhen, not_for: notFor, requires, status_page: statusPage } = values
  const links = { cli, api, web, homepage, repository, documentation, statusPage }
  return {
    ...given({ about, emoji, access, install, ...links }),
    ...(useWhen !== undefined && { useWhen: [useWhen].flat() }),
    ...(notFor !== undefined && { notFor: [notFor].flat() }),
    ...(requires && {
      requires: Object.fromEntries(Object.entries(requires).map(([key, names]) => [key, [names].flat()])),
    }),
  }
}

/** Other servers, for what one can not do. */
export function recommendSettings(values: AboutValues['recommend']): Recommendation[] {
  return values.map(({ registry_url: registryUrl, auth_flow: authFlow, ...rest }) => {
    return { ...rest, ...given({ registryUrl, authFlow }) }
  })
}

/** A cost in its short form: a kind of cost, or a number and what is counted. */
export function costSettings(cost: string | Cost): Cost {
  if (typeof cost !== 'string') return cost
  const category = costCategories.find((each) => each === cost)
  if (category !== undefined) return { category }
  const [, units, label] = /^(\d+(?:\.\d+)?)\s+(.+)$/.exec(cost) ?? []
  if (units === undefined || label === undefined) return { category: 'metered', label: cost }
  return { category: 'metered', units: Number(units), label }
}
