/**
 * `npm run simulate`: the simulator with the built gateway. Its files import `src`, whose types they need; here Node.js
 * loads the files of `dist` in their places, which it need not compile, and in which tests plant bugs.
 */
import { registerHooks } from 'node:module'

const sources = new URL('../../src/', import.meta.url).href
const built = new URL('../../dist/', import.meta.url).href

registerHooks({
  resolve(specifier, context, nextResolve) {
    const found = nextResolve(specifier, context)
    if (!found.url.startsWith(sources)) return found
    const path = found.url.slice(sources.length).replace(/\.ts$/, '.js')
    return { ...found, url: `${built}${path}`, format: 'module' }
  },
})

const { simulate } = await import('./command.ts')
process.exitCode = await simulate(process.argv.slice(2))
