// Whatever is computed with a number names that number, never one beside it.
import { createHmac } from 'node:crypto'
import { PassThrough } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { approvalLine } from '../../src/cli/approvals.ts'
import { readArguments } from '../../src/cli/call.ts'
import { tableLines } from '../../src/cli/output.ts'
import { readDocument } from '../../src/config/document.ts'
import type { Call, Handler } from '../../src/core/call.ts'
import { GatewayError } from '../../src/core/error.ts'
import { exactHash } from '../../src/core/json/canonical-hash.ts'
import { exactly, isObject, isSame } from '../../src/core/json/json.ts'
import { parseJson } from '../../src/core/json/read.ts'
import { readPage, pageArguments } from '../../src/core/judgement/pages.ts'
import { Payload } from '../../src/core/payload.ts'
import { createSeal } from '../../src/core/seal.ts'
import { cleanedValue, withoutSecrets } from '../../src/core/text/redact.ts'
import { Secret } from '../../src/core/text/secret.ts'
import { parseExpression, printExpression, resultValue } from '../../src/core/undo/expression.ts'
import { readUndo } from '../../src/core/undo/rules.ts'
import { cost } from '../../src/features/cost/cost.ts'
import { reportDryRun } from '../../src/features/dry-run/dry-run.ts'
import { hasFields } from '../../src/features/events/types.ts'
import { compare, itemsOf, printState, readWatchState } from '../../src/features/events/sources/watches.ts'
import { mask } from '../../src/features/mask/mask.ts'
import { rulesFor } from '../../src/features/permissions/gate.ts'
import { compensationFor } from '../../src/features/undo/undo.ts'
import { checkMirror, mirrorHeaders, readMirror } from '../../src/protocol/headers.ts'
import { type Action, Actions, newActionKey } from '../../src/records/actions.ts'
import { argumentsHash, contentHash } from '../../src/records/receipts.ts'
import { MemoryStore } from '../../src/store/memory.ts'
import { valuesThatDiffer } from '../../src/testkit/diff.ts'
import { Matches } from '../../src/testkit/player.ts'
import { steady } from '../../src/testkit/steady.ts'
import { chain, on } from '../support/chain.ts'
import { declaringGateway } from '../support/declaring-gateway.ts'
import { featureDeps } from '../support/feature-deps.ts'
import { bench as idempotent, failureOf, keyed } from '../support/idempotency-bench.ts'
import { checking, named, valueWith } from '../support/long-numbers.ts'
import { ada, argumentSchema, referenceWorld } from '../support/reference-world.ts'
import { serverSettings } from '../support/server-settings.ts'
import { repetitions, seedOf } from '../support/soak.ts'
import { toolCall } from '../support/tool-call.ts'
import { bench as confirming, modern, plain, question, TOOL } from './features/confirm/bench.ts'
import { Stateful, tool } from './features/state/setup.ts'

const fields = (text: string): Record<string, unknown> => {
  const value = parseJson(text)
  return isObject(value) ? value : {}
}

/** Whether a text has a number, and not the other one; a caller's text may have been cut. */
function expectNamed(text: string | undefined, number: string, other: string): void {
  expect(text).toContain(named(number))
  if (!named(number).includes(named(other))) expect(text).not.toContain(named(other))
}

function resultOf(value: unknown): Payload {
  return Payload.text(JSON.stringify({ content: [], structuredContent: value }))
}

// In the run of all repetitions, over ten thousand pairs in all.
const forPairs = checking(repetitions(100, 500), seedOf('LONG_NUMBERS_SEED', 53))
const seal = createSeal(Date.now)
const t = { name: 't', inputSchema: { type: 'object', properties: { id: { type: 'integer' } } } } as const

describe('a number that a double cannot hold', () => {
  it('is read and written as it came, at any place', () =>
    forPairs(({ number, other }) => {
      const value = parseJson(valueWith(number))
      expect(JSON.stringify(value)).toBe(
        valueWith(number)
          .replaceAll(`:${number}`, `:${named(number)}`)
          .replaceAll(`,${number}]`, `,${named(number)}]`),
      )
      expect(isSame(value, parseJson(valueWith(other)))).toBe(false)
      expect(isSame({ id: parseJson(number) }, { id: parseJson(other) })).toBe(false)
      expect(exactHash({ id: parseJson(number) })).not.toBe(exactHash({ id: parseJson(other) }))
    }))

  it('is the row that an undo names, from arguments, results and JSON in a text, and its record', () =>
    forPairs(async ({ number, other }) => {
      const rule = readUndo('close(id=$.result.id, by=$.args.id, each=$.args.of.ids[*], text=$.args.text)')
      const results = [
        resultValue(Payload.text(`{"content":[],"structuredContent":{"id":${number}}}`)),
        resultValue(Payload.text(`{"content":[{"type":"text","text":"{\\"id\\": ${number}}"}]}`)),
      ]
      const actions = new Actions(new MemoryStore())
      for (const value of results) {
        const way = compensationFor(rule, {
          args: fields(valueWith(number)),
          result: { value, isRedacted: false },
        })
        const action: Action = {
          key: newActionKey(1_800_000_000_000),
          startedAt: 1_800_000_000_000,
          principal: { id: 'ada' },
          upstream: 'one',
          tool: 't',
          arguments: fields(valueWith(number)),
          status: 'ok',
          way,
        }
        await actions.put(action, 60_000)
        const [found] = await actions.list()
        const given = `{"id":${named(number)},"by":${named(number)},"each":[1,${named(number)}],"text":"${number}"}`
        expect(JSON.stringify(found?.way.kind === 'exact' && found.way.arguments)).toBe(given)
        expectNamed(found?.way.kind === 'exact' ? found.way.description.slice(0, 60) : '', number, other)
        await actions.remove(action.key)
      }
    }))

  it('stands in a rule as it is written', () =>
    forPairs(({ number }) => {
      const text = `f(a=${named(number)})`
      expect(printExpression(parseExpression(text))).toBe(text)
    }))

  it('is what a lost call is looked for by, and a found effect is its result', () =>
    forPairs(async ({ number, other }) => {
      const reads: Call[] = []
      const call: Handler = async (read) => {
        reads.push(read)
        return { kind: 'result', result: resultOf({ items: [fields(valueWith(number))] }) }
      }
      const { make } = idempotent({
        tool: { verify: 'list(x=$.args.id) -> $.result.items[0]' },
        deps: { call, callBounds: () => ({ silence: 30_000, total: 600_000 }) },
        server: () => Promise.reject(new GatewayError('OUTCOME_UNKNOWN', 'It went away.')),
      })
      const outcome = await make({}, keyed('k', { arguments: fields(valueWith(number)) }))
      expect(reads[0]?.params.at('arguments')?.text).toBe(`{"x":${named(number)}}`)
      expectNamed(
        outcome.kind === 'result' ? outcome.result.at('structuredContent')?.text : '',
        number,
        other,
      )
    }))

  it('makes calls with one key different, at any place, and is in the replay of its own', () =>
    forPairs(async ({ number, other }) => {
      const { make, seen } = idempotent({
        server: async (call) => ({ kind: 'result', result: resultOf(call.params.fields['arguments']) }),
      })
      const with_ = (text: string) => ({
        params: Payload.text(`{"name":"t","arguments":${text}}`),
        meta: { 'dev.gatehouse/idempotency_key': 'k' },
      })
      const written = (of: string, and: string): string => `{"a":{"id":${of},"to":[1e20,${and}]}}`
      const first = await make(with_(written(number, other)))
      const again = await make(with_(written(number, other)))
      for (const result of [first, again])
        expect(result.kind === 'result' && result.result.at('structuredContent')?.text).toBe(
          written(named(number), named(other)).replace('1e20', '100000000000000000000'),
        )
      const others = [
        written(other, number),
        written(number, number),
        written(other, other),
        `{"a":{"to":[1e20,${number}],"id":${other}}}`,
      ]
      for (const text of others)
        expect((await failureOf(make(with_(text)))).code).toBe('IDEMPOTENCY_CONFLICT')
      expect(seen).toHaveLength(1)
    }))

  it('is the only one that a rule permits or denies, however it is written', () =>
    forPairs(({ number, other }) => {
      const glob = { t: { id: String(number) } }
      const [allow, deny] = [{ allow: glob }, { deny: glob }].map((given) =>
        rulesFor(serverSettings(given), 't'),
      )
      const permits = (text: string) => [allow, deny].map((rules) => rules?.permits(fields(text)))
      if (/[eE]/.test(number)) return
      expect(permits(`{"id":${other}}`)).toEqual([false, true])
      expect(permits(`{"id":"${other}"}`)).toEqual([false, true])
      expect(permits(`{"id":"${number}"}`)).toEqual([true, false])
      if (/\.\d*0$/.test(number)) return
      const spellings = number.includes('.')
        ? [number, `${number}0`, `${number}e0`]
        : [number, `${number}.0`, `${number}e+0`]
      for (const spelling of spellings)
        expect([spelling, ...permits(`{"id":${spelling}}`)]).toEqual([spelling, true, false])
    }))

  it('is named by the question, has to be typed, and is what was approved', () =>
    forPairs(async ({ number, other }) => {
      const asking = confirming({
        tool: { confirm: 'Delete {id} of {of}?', typeToConfirm: 'id' },
      })
      const given = (text: string, client = modern) => ({
        client,
        params: Payload.text(`{"name":"${TOOL}","arguments":${text}}`),
      })
      const asked = question(await asking.call(given(valueWith(number))))
      expectNamed(JSON.stringify(asked), number, other)
      const paged = confirming()
      await paged.call(given(`{"id":${number}}`, plain))
      const [pending] = await paged.approvals.list()
      if (!pending) throw new Error('nothing is pending')
      expectNamed(approvalLine(pending), number, other)
      expectNamed(JSON.stringify(pending.arguments), number, other)
      await paged.approvals.decide(pending.id, { by: 'ada', via: 'command_line', verdict: 'approved' })
      await paged.call(given(`{"id":${other}}`, plain))
      expect(paged.served).toEqual([])
      await paged.call(given(`{"id":${number}}`, plain))
      expect(paged.served.map(({ params }) => params.at('arguments')?.text)).toEqual([`{"id":${number}}`])
    }))

  it('is remembered and filled in', () =>
    forPairs(async ({ number }) => {
      const at = new Stateful({
        settings: { remember: ['owner'] },
        tools: [tool('list', 'read', ['owner']), tool('create', 'write', ['owner', 'title'])],
      })
      const first = await at.result({ name: 'list', arguments: fields(`{"owner":${number}}`) })
      await at.result({ name: 'create', arguments: { title: 'x' }, session_state: first.token })
      expect(at.seen.at(-1)?.params.at('arguments')?.text).toBe(`{"title":"x","owner":${named(number)}}`)
    }))

  it('is an item of a watch by itself, and its change is one', () =>
    forPairs(({ number, other }) => {
      const paths = {
        items: { root: 'result', steps: ['items'] },
        id: ['id'],
        written: { id: '$.id' },
      } as const
      const itemsIn = (...items: readonly string[]) =>
        itemsOf(Payload.text(`{"structuredContent":{"items":[${items.join()}]}}`), paths)
      const one = itemsIn(`{"id":${number},"n":${number}}`)
      const { state } = compare(undefined, one, true)
      const kept = readWatchState(printState(state))
      const next = (...items: readonly string[]) =>
        compare(kept, itemsIn(...items), true).changes.map(({ kind, id }) => [kind, id])
      expect(next(`{"id":${number},"n":${number}}`)).toEqual([])
      expect(next(`{"id":${number},"n":${other}}`)).toEqual([['changed', named(number)]])
      expect(next(`{"id":${number},"n":${number}}`, `{"id":${other},"n":1}`)).toEqual([
        ['added', named(other)],
      ])
    }))

  it('is masked where a rule has it, and nowhere else', () =>
    forPairs(async ({ number, other }) => {
      const pattern = named(number).replaceAll(/[.+]/g, String.raw`\$&`)
      const make = chain([on(mask, { rules: [{ pattern, replace: '***' }] })], async () => ({
        kind: 'result',
        result: resultOf({ ...fields(valueWith(number)), beside: parseJson(other) }),
      }))
      const outcome = await make()
      const text = outcome.kind === 'result' ? outcome.result.at('structuredContent')?.text : ''
      // A pattern matches a part of a number too.
      if (named(other).includes(named(number))) return
      expect(text).not.toContain(named(number))
      expect(text).toContain(`"beside":${named(other)}`)
    }))

  it('is the only one whose webhooks are wanted, and is in their events', () =>
    forPairs(async ({ number, other }) => {
      const when = { '$.id': [number] }
      const hook = { kind: 'hook', form: 'github', secrets: [new Secret('s3cret')], when } as const
      const { instance, request } = declaringGateway({ store: new MemoryStore(), seal }, { push: hook })
      const { cursor } = await request('events/poll', { name: 'push' })
      for (const body of [`{"id":${other}}`, `{"id":${number}}`])
        await instance.http?.receiveHook?.({
          server: 'one',
          name: 'push',
          headers: {
            'x-hub-signature-256': `sha256=${createHmac('sha256', 's3cret').update(body).digest('hex')}`,
          },
          body: () => Promise.resolve(body),
        })
      const page = await request('events/poll', { name: 'push', cursor })
      const events = JSON.stringify(page['events'])
      if (!/e/i.test(number) && named(number) === number) expect(events).toContain(`"body":{"id":${number}}`)
      expect(events).not.toContain(`"body":{"id":${named(other)}}`)
    }))

  it('is the only one that a filter of events selects', () =>
    forPairs(({ number, other }) => {
      const data = fields(valueWith(number))
      expect(hasFields(data, { id: parseJson(number) })).toBe(true)
      expect(hasFields(data, { id: [1, parseJson(other), parseJson(number)] })).toBe(true)
      expect(hasFields(data, { id: parseJson(other) })).toBe(false)
      expect(JSON.stringify(cleanedValue(data, withoutSecrets))).toBe(JSON.stringify(data))
    }))

  it('is what a reference selects, as a value and in a list', () =>
    forPairs(async ({ number }) => {
      const { call, keep, got } = referenceWorld({ definition: argumentSchema({}) })
      const uri = await keep(valueWith(number), 'application/json')
      for (const part of ['#/id', '?rows=2-2#/of/ids'])
        await call({ value: `${uri}${part}` }, { principal: ada })
      expect(JSON.stringify(got)).toBe(`[{"value":${named(number)}},{"value":[${named(number)}]}]`)
    }))

  it('makes receipts of arguments and results differ', () =>
    forPairs(({ number, other }) => {
      const [one, two] = [number, other].map((each) => fields(valueWith(each)))
      expect(argumentsHash({ id: one?.['id'] })).not.toBe(argumentsHash({ id: two?.['id'] }))
      expect(contentHash(resultOf(one?.['id']))).not.toBe(contentHash(resultOf(two?.['id'])))
      expect(argumentsHash({ b: 1, a: one })).toBe(argumentsHash({ a: one, b: 1 }))
    }))

  it('is in the report of a dry run, and in its text', () =>
    forPairs(async ({ number, other }) => {
      const services = featureDeps({})
      const definition = { upstream: 'one', kind: 'tool', name: 't', definition: t } as never
      const outcome = await reportDryRun(services)(
        toolCall({ params: Payload.text(`{"name":"t","arguments":{"id":${number}}}`), tool: definition }),
      )
      if (outcome.kind !== 'result') throw new Error('no result')
      expectNamed(outcome.result.at('structuredContent')?.text, number, other)
      expectNamed(outcome.result.at('content')?.text, number, other)
    }))

  it('passes what charges a call', () =>
    forPairs(async ({ number }) => {
      const seen: (string | undefined)[] = []
      const make = chain(
        [on(cost, { budget: { units: 12, per: 'day' } })],
        async ({ params }) => {
          seen.push(params.at('arguments')?.text)
          return { kind: 'result', result: resultOf({}) }
        },
        {
          store: new MemoryStore(),
          server: () =>
            serverSettings({ name: 'one', tools: { t: { cost: { category: 'metered', units: 5 } } } }),
        },
      )
      await make({ params: Payload.text(`{"name":"t","arguments":${valueWith(number)}}`) })
      expect(seen).toEqual([valueWith(number)])
    }))

  it('is the next page, and no other cursor', () =>
    forPairs(({ number }) => {
      const inputs = pageArguments({ inputSchema: { properties: { cursor: {} } } })
      const page = readPage(fields(`{"items":[1],"next_cursor":${number}}`), {}, inputs)
      if (/^-|e/i.test(number)) return
      expect(JSON.stringify(page?.next?.value)).toBe(named(number))
    }))

  it('is repeated by the header of its argument', () =>
    forPairs(({ number, other }) => {
      const mirror = readMirror({ properties: { id: { type: 'integer', 'x-mcp-header': 'id' } } }) ?? []
      const params = (id: string) => Payload.text(`{"name":"t","arguments":{"id":${id}}}`)
      const headers = mirrorHeaders(mirror, params(number))
      expect(headers).toEqual({ 'mcp-param-id': named(number) })
      expect(() => checkMirror(mirror, headers, params(number))).not.toThrow()
      expect(() => checkMirror(mirror, headers, params(other))).toThrow('differs from the body')
    }))

  it('finds the recorded request that has it, and is a difference between recordings', () =>
    forPairs(({ number, other }) => {
      const params = (id: string) => ({ name: 't', arguments: fields(valueWith(id)) })
      const episode = (id: string, line: number) => ({
        line,
        t: 0,
        connection: 1,
        method: 'tools/call',
        params: params(id),
        id: 1,
        steps: [],
        after: [],
      })
      const matches = new Matches([episode(number, 1), episode(other, 2)], {
        header: { redaction: { marks: [] } } as never,
      })
      const line = (id: string) => matches.take('tools/call', params(id), [])?.line
      expect([line(other), line(number), line(other)]).toEqual([2, 1, 2])
      expect(valuesThatDiffer(params(number), params(number))).toEqual([])
      const [found] = valuesThatDiffer(steady({ id: parseJson(number) }), steady({ id: parseJson(other) }))
      expect(JSON.stringify(found)).toBe(`{"path":"id","before":${named(number)},"after":${named(other)}}`)
    }))

  it('is what a command is given, and what its table has', () =>
    forPairs(async ({ number, other }) => {
      const io = { stdin: new PassThrough() } as never
      const given = [
        (await readArguments([`id=${number}`], io))(t),
        (await readArguments([`{"id":${number}}`], io))(t),
      ]
      for (const each of given) expect(JSON.stringify(each)).toBe(`{"id":${named(number)}}`)
      expectNamed(tableLines([[String(given[0]?.['id'])]]).join(''), number, other)
    }))

  it('is a value of the configuration with its digits, or a problem that says where', () =>
    forPairs(({ number }) => {
      const { value } = readDocument(`a: ${number}\nb: [${number}, {c: ${number}}]\n"${number}": 1\n`)
      const digits = named(number)
      expect(exactly(value)).toBe(
        exactly(fields(`{"a":${digits},"b":[${digits},{"c":${digits}}],"${number}":1}`)),
      )
    }))
})

describe('the state of a watch that has rounded numbers', () => {
  const paths = { items: { root: 'result', steps: ['items'] }, id: ['id'], written: { id: '$.id' } } as const
  const itemsIn = (text: string) => itemsOf(Payload.text(`{"structuredContent":{"items":${text}}}`), paths)

  it('is that of its items, which did not change', () => {
    const old = '[{"id":725653563933458433,"n":1},{"id":"b","n":725653563933458433},{"id":"c","n":1}]'
    // As it was stored: with the doubles that are nearest.
    const before = itemsIn(JSON.stringify(JSON.parse(old))).map(({ id, digest }) => [id, digest])
    const state = readWatchState(JSON.stringify({ epoch: 'e', round: 1, items: before }))
    const same = compare(state, itemsIn(old), true)
    expect(same.changes).toEqual([])
    const next = readWatchState(printState(same.state))
    const other = old.replace('433,"n"', '434,"n"').replace('433}', '434}')
    expect(compare(next, itemsIn(other), true).changes.map(({ kind, id }) => [kind, id])).toEqual([
      ['added', '725653563933458434'],
      ['changed', 'b'],
      ['removed', '725653563933458433'],
    ])
  })
})
