import { describe, expect, it } from 'vitest'
import {
  type Login,
  startWithAuth,
  type HttpAnswer,
  type HttpRequest,
} from '../../../../src/upstream/transport/auth-retry.ts'

const answer = (status: number): HttpAnswer => ({
  status,
  isEventStream: false,
  isComplete: true,
  body: '',
  header: () => undefined,
})

/** Makes one request with token renewal; each attempt receives the next status. */
function attempt(login: Login, statuses: readonly number[], request: Partial<HttpRequest> = {}) {
  const sent: HttpRequest[] = []
  const left = [...statuses]
  const ended = new Promise<number>((resolve, reject) => {
    startWithAuth(
      login,
      {
        request: { method: 'POST', headers: { accept: 'x' }, body: 'call', ...request },
        url: 'https://mcp.example.com/mcp',
      },
      (each, ends) => {
        sent.push(each)
        const given = answer(left.shift() ?? 500)
        each.onHead?.(given)
        ends.resolve(given)
      },
      { resolve: ({ status }) => resolve(status), reject },
    )
  })
  return { sent, ended }
}

function login(isWorth: boolean): Login {
  let attempts = 0
  return {
    headers: () => ({ authorization: `Bearer ${++attempts}` }),
    refused: async () => isWorth,
  }
}

describe('a request with token renewal', () => {
  it('the request is sent synchronously if the headers are available', () => {
    const { sent } = attempt(login(true), [200])
    expect(sent.map(({ headers }) => headers)).toEqual([{ accept: 'x', authorization: 'Bearer 1' }])
  })

  it('long strings of the response are kept where the request says', () => {
    const spool = { over: 1 } as never
    const { sent } = attempt(login(true), [200], { spool: () => spool })
    expect(sent[0]?.spool?.()).toBe(spool)
    expect(attempt(login(true), [200]).sent[0]?.spool).toBeUndefined()
  })

  it('the request is retried once after a 401', async () => {
    const { sent, ended } = attempt(login(true), [401, 401, 200])
    expect(await ended).toBe(401)
    expect(sent.map(({ headers }) => headers['authorization'])).toEqual(['Bearer 1', 'Bearer 2'])
    expect(sent.map(({ body }) => body)).toEqual(['call', 'call'])
  })

  it('the request is not retried without a better token or for other errors', async () => {
    expect(await attempt(login(false), [403, 200]).ended).toBe(403)
    expect(await attempt(login(true), [404, 200]).ended).toBe(404)
    expect(await attempt(login(true), [500, 200]).ended).toBe(500)
  })

  it('the response of a retried attempt is not reported', async () => {
    const heads: number[] = []
    const onHead = ({ status }: HttpAnswer): void => void heads.push(status)
    await attempt(login(true), [401, 200], { onHead }).ended
    await attempt(login(false), [401], { onHead }).ended
    expect(heads).toEqual([200, 401])
  })

  it('the request is not sent if it was cancelled while its headers were requested', async () => {
    const headers = Promise.withResolvers<Record<string, string>>()
    let abort = (): void => undefined
    const { sent, ended } = attempt({ headers: () => headers.promise, refused: async () => false }, [200], {
      onAbortable: (given) => {
        abort = given
      },
    })
    abort()
    headers.resolve({})
    await expect(ended).rejects.toMatchObject({ code: 'CANCELLED' })
    expect(sent).toEqual([])
  })

  it('the request fails with the error of the token renewal', async () => {
    const broken: Login = {
      headers: () => {
        throw new TypeError('No token.')
      },
      refused: async () => false,
    }
    await expect(attempt(broken, []).ended).rejects.toThrow('No token.')
  })
})
