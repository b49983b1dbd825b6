/** The paths of the staff routes, as browsers request them: each links to the other. */
export interface StaffMounts {
  /** The root paths of dashboards. Each ends with a slash. */
  readonly dashboards: string[]
  /** The root paths of admin panels. */
  readonly panels: string[]
  /** The prefixes of APIs that take tokens. */
  readonly apis: string[]
}

/** Returns the mount that shares the most leading segments with another one. */
export function nearestMount(mounts: readonly string[], path: string): string | undefined {
  const segments = path.split('/')
  const shared = (mount: string) => {
    const theirs = mount.split('/')
    const apart = segments.findIndex((segment, index) => segment !== theirs[index])
    return apart === -1 ? segments.length : apart
  }
  return mounts.toSorted((one, other) => shared(other) - shared(one))[0]
}
