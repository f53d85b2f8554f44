/**
 * Follows a sign-in link of the gateway as a browser does whose user is signed in to the authorization server already.
 * Resolves with whether the gateway says that it is done.
 */
export async function followSignIn(link: string): Promise<boolean> {
  const start = await fetch(link)
  const cookie = start.headers.getSetCookie()[0]?.split(';')[0] ?? ''
  const href = /<a rel="noreferrer" href="([^"]+)"/.exec(await start.text())?.[1] ?? ''
  const url = href.replaceAll(/&#(\d+);/g, (_whole, code: string) => String.fromCharCode(Number(code)))
  const redirect = await fetch(url, { redirect: 'manual' })
  const back = redirect.headers.get('location') ?? ''
  return (await fetch(new URL(back, url), { headers: { cookie } })).ok
}

/** Makes a call, and again after each sign-in that it requires, up to the number that a user would bear. */
export async function signingIn<Result>(call: () => Promise<Result>): Promise<Result> {
  for (let signIns = 0; ; signIns++) {
    try {
      return await call()
    } catch (error) {
      const [link] = /https?:\S+\/oauth\/start\/[\w-]+/.exec(String(error)) ?? []
      if (link === undefined || signIns === MAX_SIGN_INS || !(await followSignIn(link))) throw error
    }
  }
}

const MAX_SIGN_INS = 4
