type Equal<One, Other> = (<T>() => T extends One ? 1 : 2) extends <T>() => T extends Other ? 1 : 2 ? true : false

/** `expectType<Expected>()(actual)` compiles when the types are the same; `any` is only the same as `any`. */
export function expectType<Expected>() {
  return function expectActual<Actual>(
    _actual: Actual,
    ..._different: Equal<Actual, Expected> extends true ? [] : [never]
  ): void {}
}
