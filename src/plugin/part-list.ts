/** A list of parts. Each one is opened with what those before it have made, and adds what it makes under other names. */
export class PartList<Made extends object> {
  readonly #made: Promise<Made>

  constructor(made: Promise<Made>) {
    this.#made = made
  }

  with<More extends object & { readonly [Name in keyof Made]?: never }>(
    open: (made: Made) => More | Promise<More>,
  ): PartList<Made & More> {
    return new PartList(this.#made.then(async (made) => Object.assign(made, await open(made))))
  }

  /** Resolves to what all parts have made. */
  made(): Promise<Made> {
    return this.#made
  }
}
