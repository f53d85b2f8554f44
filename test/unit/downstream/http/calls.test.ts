import { expect, it } from 'vitest'
import { routeAt } from '../../../../src/downstream/http/routes.ts'
import type { RoutePath } from '../../../../src/core/http-paths.ts'

const routes: readonly RoutePath[] = [
  { verb: 'POST', path: '/subscribe' },
  { verb: 'GET', path: '/events/:subscription_id', isStream: true },
]

it.each([
  ['POST', '/subscribe', { route: routes[0], named: {} }],
  ['GET', '/subscribe', undefined],
  ['POST', '/subscribe/', undefined],
  ['GET', '/events/a-1', { route: routes[1], named: { subscription_id: 'a-1' } }],
  ['GET', '/events/', undefined],
  ['GET', '/events', undefined],
  ['GET', '/events/a/b', undefined],
  ['HEAD', '/events/a', undefined],
])('%s %s is found among the paths of features, or is not', (verb, path, found) => {
  expect(routeAt(verb, path, routes)).toEqual(found)
})
