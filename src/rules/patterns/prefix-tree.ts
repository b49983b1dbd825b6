/** A node of a radix tree. */
interface Node<Value> {
  /** The text between the parent and this node. */
  text: string
  value: Value | undefined
  /** Nodes by the first character of their text. */
  children: Map<number, Node<Value>>
}

/** Values by prefix, in a radix tree. */
export class PrefixTree<Value> {
  readonly #root: Node<Value> = { text: '', value: undefined, children: new Map() }

  /** Returns the value of a prefix, which is made where there is none yet. */
  at(prefix: string, make: () => Value): Value {
    let node = this.#root
    let rest = prefix
    while (rest !== '') {
      const child = node.children.get(rest.charCodeAt(0))
      if (child === undefined) {
        const leaf: Node<Value> = { text: rest, value: undefined, children: new Map() }
        node.children.set(rest.charCodeAt(0), leaf)
        node = leaf
        break
      }
      const common = commonLength(child.text, rest)
      node = common < child.text.length ? split(node, child, common) : child
      rest = rest.slice(common)
    }
    node.value ??= make()
    return node.value
  }

  /** Visits the values of all prefixes of a text, the shortest first. */
  visit(text: string, visitor: (value: Value) => void): void {
    let node: Node<Value> | undefined = this.#root
    let position = 0
    for (;;) {
      if (node.value !== undefined) visitor(node.value)
      node = node.children.get(text.charCodeAt(position))
      if (node === undefined || !text.startsWith(node.text, position)) return
      position += node.text.length
    }
  }
}

/** Replaces `child` by a node for the first `length` characters of its text, with `child` below it. */
function split<Value>(parent: Node<Value>, child: Node<Value>, length: number): Node<Value> {
  const between: Node<Value> = { text: child.text.slice(0, length), value: undefined, children: new Map() }
  child.text = child.text.slice(length)
  between.children.set(child.text.charCodeAt(0), child)
  parent.children.set(between.text.charCodeAt(0), between)
  return between
}

function commonLength(a: string, b: string): number {
  let length = 0
  while (length < a.length && length < b.length && a.charCodeAt(length) === b.charCodeAt(length)) length++
  return length
}
