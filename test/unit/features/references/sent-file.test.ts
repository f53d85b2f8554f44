// The file in a request, however its bytes arrive.
import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { GatewayError } from '../../../../src/core/error.ts'
import { sentFile } from '../../../../src/features/references/transfer/sent-file.ts'

const limits = { maxSize: 10_000 }

/** A request whose body arrives in pieces of these sizes, and may end with an error. */
function arriving(body: Buffer, sizes: readonly number[], error?: Error) {
  let returned = false
  const bytes = (async function* () {
    try {
      let at = 0
      for (let index = 0; at < body.byteLength; index++) {
        const size = sizes[index % sizes.length] ?? 1
        yield body.subarray(at, at + size)
        at += size
      }
      if (error) throw error
    } finally {
      returned = true
    }
  })()
  return { body: bytes, isReturned: () => returned }
}

async function read(bytes: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const parts: Uint8Array[] = []
  for await (const part of bytes) parts.push(part)
  return Buffer.concat(parts)
}

const form = { 'content-type': 'multipart/form-data; boundary="b"' }

function formOf(file: Buffer, end = '\r\n--b--\r\n'): Buffer {
  const head =
    '--b\r\nContent-Disposition: form-data; name="note"\r\n\r\nhello\r\n' +
    '--b\r\nContent-Disposition: form-data; name="f"; filename="../a/b.bin"\r\nContent-Type: image/x\r\n\r\n'
  return Buffer.concat([Buffer.from(head), file, Buffer.from(end)])
}

const sizes = fc.array(fc.integer({ min: 1, max: 200 }), { minLength: 1, maxLength: 5 })
// Boundaries and their parts are likely in it.
const content = fc
  .array(
    fc.oneof(
      fc.uint8Array({ minLength: 1, maxLength: 50 }),
      fc.constantFrom('\r\n', '--b', '\r\n--', '\r', '-'),
    ),
    {
      minLength: 1,
      maxLength: 20,
    },
  )
  .map((parts) => Buffer.concat(parts.map((part) => Buffer.from(part))))
  .filter((bytes) => !bytes.includes('\r\n--b') && !`${bytes.toString('latin1')}`.startsWith('--b'))

describe('the file of a form', () => {
  it('has the bytes that were sent, in whatever pieces they arrive', async () => {
    await fc.assert(
      fc.asyncProperty(content, sizes, async (bytes, pieces) => {
        const { body } = arriving(formOf(bytes), pieces)
        const file = await sentFile({ headers: form, body }, limits)
        expect(file.type).toBe('image/x')
        expect((await read(file.bytes)).equals(bytes)).toBe(true)
      }),
      { numRuns: 200 },
    )
  })

  it('never ends well if the form is cut anywhere', async () => {
    await fc.assert(
      fc.asyncProperty(content, sizes, fc.nat(), async (bytes, pieces, cut) => {
        const whole = formOf(bytes, '\r\n--b--')
        const { body } = arriving(whole.subarray(0, cut % whole.byteLength), pieces)
        const result = sentFile({ headers: form, body }, limits).then((file) => read(file.bytes))
        await expect(result).rejects.toMatchObject({ code: 'INVALID_INPUT' })
      }),
      { numRuns: 200 },
    )
  })

  it('ends with the error of a request that is cut', async () => {
    const gone = new GatewayError('CANCELLED', 'The client disconnected.')
    const { body } = arriving(formOf(Buffer.alloc(500), ''), [100], gone)
    const result = sentFile({ headers: form, body }, limits).then((file) => read(file.bytes))
    await expect(result).rejects.toBe(gone)
  })

  it('stops reading the request when the reader stops', async () => {
    const request = arriving(formOf(Buffer.alloc(9000)), [100])
    const file = await sentFile({ headers: form, body: request.body }, { maxSize: 1000 })
    await expect(read(file.bytes)).rejects.toMatchObject({ code: 'PAYLOAD_TOO_LARGE' })
    await expect.poll(request.isReturned).toBe(true)
  })

  it('is compared with the digest that was announced', async () => {
    const bytes = Buffer.from('the file')
    const sha256 = createHash('sha256').update(bytes).digest('hex')
    const sent = (announced: string) =>
      sentFile(
        { headers: form, body: arriving(formOf(bytes), [100]).body },
        { ...limits, sha256: announced },
      ).then((file) => read(file.bytes))
    expect(String(await sent(sha256))).toBe('the file')
    const other = createHash('sha256').update('other').digest('hex')
    await expect(sent(other)).rejects.toMatchObject({ code: 'INVALID_INPUT', extra: { reason: 'digest' } })
  })

  it('is refused with the digest of a form, which is not checked', async () => {
    for (const name of ['repr-digest', 'content-digest', 'digest']) {
      const headers = { ...form, [name]: 'sha-256=:YWJj:' }
      const result = sentFile({ headers, body: arriving(formOf(Buffer.from('x')), [100]).body }, limits)
      await expect(result).rejects.toMatchObject({ code: 'INVALID_INPUT', extra: { field: name } })
    }
  })

  it('is refused if the form is too large behind it, whatever its header says', async () => {
    const body = formOf(Buffer.from('x'), `\r\n--b--\r\n${'x'.repeat(30_000)}`)
    const result = sentFile({ headers: form, body: arriving(body, [1000]).body }, limits)
    await expect(result.then((file) => read(file.bytes))).rejects.toMatchObject({ code: 'PAYLOAD_TOO_LARGE' })
  })

  it('is refused if a header is no form, or the form is too large besides', async () => {
    for (const type of ['multipart/form-data; boundary', 'multipart/form-data;'])
      await expect(
        sentFile({ headers: { 'content-type': type }, body: arriving(Buffer.from('x'), [1]).body }, limits),
      ).rejects.toMatchObject({ code: 'INVALID_INPUT' })
    const headers = { ...form, 'content-length': '100000' }
    await expect(
      sentFile({ headers, body: arriving(Buffer.from('x'), [1]).body }, limits),
    ).rejects.toMatchObject({
      code: 'PAYLOAD_TOO_LARGE',
    })
  })
})

describe('the name of a file', () => {
  it.each([
    ['attachment; filename="a b.txt"', 'a b.txt'],
    ['attachment; filename=a.txt', 'a.txt'],
    [`attachment; filename="x"; filename*=UTF-8''%e2%82%ac.txt`, '€.txt'],
    [String.raw`attachment; filename="a\"b.txt"`, 'a"b.txt'],
    [`attachment; filename*=UTF-8''%ff`, undefined],
    ['attachment', undefined],
  ])('is read from %s', async (disposition, name) => {
    const { body } = arriving(Buffer.from('x'), [1])
    expect((await sentFile({ headers: { 'content-disposition': disposition }, body }, limits)).name).toBe(
      name,
    )
  })
})
