/** The name and version the gateway gives as its own. */
export const self = { name: 'gatehouse', title: 'Gatehouse', version: '0.3.0' } as const
