import type { Contract, ToolContract } from '../../src/core/contract.ts'
import { errorCodes } from '../../src/core/error.ts'

/** What a server offers: one prompt, one resource and one template, unless given. */
export function contract(given: Partial<Contract> = {}): Contract {
  return {
    entrances: ['stdio', '/mcp'],
    isGuarded: false,
    errorCodes,
    tools: {},
    prompts: { brief: { arguments: {}, wording: '' } },
    resources: { 'notes://all': 'text/plain' },
    templates: { 'notes://{id}': '' },
    ...given,
  }
}

/** What a tool promises: nothing, unless given. */
export function toolContract(given: Partial<ToolContract> = {}): ToolContract {
  return { input: {}, scopes: [], returns: [], hints: {}, wording: '', ...given }
}
