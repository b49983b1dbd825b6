/** What a host is, and what its assertions can do with it. */

export interface Host {
  /** What npm installs beside the package: `name@range`. */
  readonly packages: readonly string[]
  /** The files of the project, by their paths. */
  readonly files: Readonly<Record<string, string>>
  /** Whether it belongs to those that every change has to pass. */
  readonly isQuick?: boolean
  /** Drives it, and throws where it does not behave. */
  check(project: Project): Promise<void>
}

/** A folder of its own, in which the packages are installed and the files written. */
export interface Project {
  readonly folder: string
  /** Runs a program to its end. A name without a slash is one of the installed packages'. */
  run(program: string, args?: readonly string[], options?: RunOptions): Promise<Ended>
  /** Starts a program that prints the address it listens at; the end of the check stops it. */
  start(program: string, args?: readonly string[], options?: RunOptions): Promise<Server>
}

export interface RunOptions {
  readonly env?: NodeJS.ProcessEnv
  /** As another user; root alone may do that. */
  readonly uid?: number
}

export interface Ended {
  readonly status: number | null
  /** All that it printed. */
  readonly output: string
}

export interface Server {
  readonly url: string
  /** All that it has printed so far. */
  output(): string
  /** Sends SIGTERM, and waits for the end. */
  stop(): Promise<Ended>
  /** Asks the same so many times, one after the other, and answers the status codes. */
  statuses(times: number, path: string, init?: RequestInit): Promise<number[]>
  request(path: string, init?: RequestInit): Promise<Response>
}
