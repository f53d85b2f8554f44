/** How the simulator is started. */
import { fileURLToPath } from 'node:url'

const main = fileURLToPath(new URL('../simulate/main.ts', import.meta.url))

/** The program and its first arguments. */
export const simulator: readonly string[] = [process.execPath, main]
