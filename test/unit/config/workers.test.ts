import { describe, expect, test } from 'vitest'
import { fromArguments, loadSettings } from '../../../src/config/load.ts'
import { loadSupervision } from '../../../src/config/load-sections.ts'

const source = { file: 'gateway.config.yaml', env: { WORKERS: '3' } }
const server = 'upstreams: { one: server }'

describe('workers', () => {
  test.each([
    ['', 1],
    ['workers: 2', 2],
    ['workers: auto', 'auto'],
    ['workers: ${WORKERS}', 3],
  ])('%j are %j, for the gateway and for its supervisor', (text, count) => {
    const file = `${text}\n${server}`
    expect(loadSettings(file, source).settings.workers).toBe(count)
    expect(loadSupervision(`${text}\nupstreams: { It: 7 }`, source)).toEqual({ workers: count })
  })

  test.each(['0', '65', '1.5', 'many', '[]'])('%s are none', (count) => {
    expect(() => loadSettings(`workers: ${count}\n${server}`, source)).toThrow('from 1 to 64, or auto')
    expect(() => loadSupervision(`workers: ${count}`, source)).toThrow('from 1 to 64, or auto')
  })

  test.each(['2', 'auto'])('%s need a store that processes share', (count) => {
    const memory = `workers: ${count}\nstore: memory\n${server}`
    expect(() => loadSettings(memory, source)).toThrow('set `store: ./folder`')
    expect(loadSettings(memory, { ...source, workers: 1 }).settings.workers).toBe(1)
  })

  test('are supervised with the log level of the file', () => {
    const observe = 'observe: { log: { level: error }, traces: { endpoint: "${NONE}" } }'
    expect(loadSupervision(`workers: 2\n${observe}`, source)).toEqual({ workers: 2, logLevel: 'error' })
  })

  test('of the command line take precedence over the file', () => {
    expect(loadSettings(`workers: 2\n${server}`, { ...source, workers: 'auto' }).settings.workers).toBe(
      'auto',
    )
    expect(() => loadSettings(`store: memory\n${server}`, { ...source, workers: 2 })).toThrow('workers')
    expect(fromArguments(['x'], { workers: 4 }).workers).toBe(4)
  })
})
