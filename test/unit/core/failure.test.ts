// Classification of error texts of real servers.
import { expect, test } from 'vitest'
import { classify, compileRules, withoutSdkPrefix } from '../../../src/core/failure.ts'
import { errorAnswers, toolTexts } from '../../support/error-texts.ts'

test.each(toolTexts)('an error text of a tool is classified: %s, %j as %s', (_server, text, code) => {
  expect(classify({ text }, []).code).toBe(code)
  expect(classify({ text: withoutSdkPrefix(text) }, []).code).toBe(code)
})

test.each(errorAnswers)(
  'an error of a server is classified: %s, %s, %j as %s',
  (_server, method, { code: rpc, message }, code) => {
    const isRead = method === 'resources/read'
    const isNamed = isRead && rpc === -32602
    const found = classify({ text: withoutSdkPrefix(message), rpc, isRead }, [])
    expect(found.code).toBe(code)
    if (isNamed) expect(classify({ text: message, rpc, isRead: false }, []).code).not.toBe('UNKNOWN_TOOL')
  },
)

test('a configured error rule has precedence', () => {
  const rules = compileRules([{ match: 'access denied', code: 'CONFLICT' }], () => undefined)
  const text = 'Access denied - path outside allowed directories: /a not in /b'
  expect(classify({ text }, rules)).toMatchObject({ code: 'CONFLICT', by: 'rule' })
})
