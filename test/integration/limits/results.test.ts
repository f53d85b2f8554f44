import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { bothEras } from '../../support/peers/clients.ts'
import { type House, openHouse } from '../../support/peers/house.ts'

let house: House
beforeAll(async () => {
  house = await openHouse(['filesystem'], { limits: { result: '8KB' } })
  await writeFile(join(house.folder, 'large.txt'), 'line of text\n'.repeat(5000))
})
afterAll(() => house.close())

describe.each(bothEras)('a client: $title', ({ connect }) => {
  it('C175 C189 accepts a truncated result that fits the schema of its tool', async () => {
    const client = await connect(house.way('http', 'filesystem'))
    try {
      await client.tools()
      const found = await client.call('read_text_file', { path: join(house.folder, 'large.txt') })
      expect(found.isError).toBe(false)
      expect(found.text).toContain('Shortened by the gateway')
      expect(found.structured).toMatchObject({ content: expect.stringMatching(/^line of text[^]*…$/) })
      expect(JSON.stringify(found.structured).length).toBeLessThan(8192)
    } finally {
      await client.close()
    }
  })
})
