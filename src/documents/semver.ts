import { oneLine } from './text.ts'

/** A version as three numbers, padded; where it is written in another way, as it is written too. */
export function semver(version: unknown): { readonly version: string; readonly wireVersion?: string } {
  const written = oneLine(version)
  const [, major, minor = '0', patch = '0', rest = ''] =
    /^v?(\d+)(?:\.(\d+))?(?:\.(\d+))?([-+][\w.+-]+)?$/.exec(written) ?? []
  const padded = major === undefined ? '0.0.0' : `${major}.${minor}.${patch}${rest}`
  return { version: padded, ...(written !== '' && written !== padded && { wireVersion: written }) }
}
