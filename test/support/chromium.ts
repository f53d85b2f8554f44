import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Browser, chromium, type Page } from 'playwright-core'

/** The browser that tests start. */
export const chromiumProgram = process.env['CHROMIUM'] ?? '/usr/bin/chromium'

/** Whether there is a browser to test with. Where tests must not be left out, its absence is an error. */
export function hasChromium(): boolean {
  const isThere = existsSync(chromiumProgram)
  if (!isThere && process.env['TEST_SUMMARY'] !== undefined) throw new Error(`${chromiumProgram} is missing`)
  if (!isThere) process.stderr.write(`Tests in a browser are left out: there is no ${chromiumProgram}.\n`)
  return isThere
}

/** Starts a headless browser. */
export function startChromium(): Promise<Browser> {
  return chromium.launch({ executablePath: chromiumProgram, headless: true, args: ['--no-sandbox'] })
}

/** How a page looks on its screen. */
export interface Measured {
  /** How much wider it is than the screen, in pixels. */
  readonly overflow: number
  /** The smallest size of its letters, and the heights of its buttons, in pixels. */
  readonly size: number
  readonly heights: readonly number[]
  /** How many texts there are, and those that hardly differ from what is behind them (WCAG 2.2, 1.4.3). */
  readonly texts: number
  readonly faint: readonly string[]
}

/** Measures a page that may run scripts. */
export function measured(page: Page): Promise<Measured> {
  return page.evaluate(readFileSync(join(import.meta.dirname, 'measure-page.js'), 'utf8'))
}
