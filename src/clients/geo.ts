/** The kinds of files about addresses, which are the settings in `geo`. */
export const GEO_FILES = ['country', 'asn'] as const

export type GeoFileKind = (typeof GEO_FILES)[number]

/** The paths of the files. */
export type GeoOptions = { readonly [Kind in GeoFileKind]?: string | undefined }

/** The network operator of an address. */
export interface Operator {
  /** The number of its autonomous system; 0 where it is not known. */
  readonly asn: bigint
  /** Its name; empty where it is not known. */
  readonly name: string
}

/** What files know of addresses. A file is replaced as a whole. */
export interface Geo {
  /** Returns whether the app has such a file. */
  has(kind: GeoFileKind): boolean
  /** Returns the code of an address's country, such as `DE`; empty where it is not known. */
  country(ip: string): string
  operator(ip: string): Operator
  /** Returns the file of each kind that the app has. */
  files(): readonly GeoFileState[]
}

export interface GeoFileState {
  readonly kind: GeoFileKind
  /** What the file says that it is, such as `GeoLite2-Country`. */
  readonly type: string
  /** The time at which the file was built, in milliseconds since the epoch. */
  readonly builtAtMs: number
  /** Why the file that is there cannot be used, so that an earlier one stays; undefined where it can. */
  readonly problem: string | undefined
}
