package config

import (
	"github.com/goccy/go-yaml/ast"
)

// kind is what a node is.
type kind int

const (
	null kind = iota
	scalar
	list
	mapping
)

// node is a value of the file with its place. Aliases share nodes, so a tree
// may be larger than its text: whoever walks it counts (decoder.budget).
type node struct {
	kind kind
	// text is a scalar's text before interpolation.
	text string
	// plain scalars may be numbers or booleans; quoted ones are text.
	number, boolean bool
	fields          []field
	items           []*node

	src          *source
	line, column int
}

// field is one entry of a mapping.
type field struct {
	name         string
	line, column int
	value        *node
}

// get returns the value of a mapping's entry, or nil.
func (n *node) get(name string) *node {
	if n == nil {
		return nil
	}
	for _, f := range n.fields {
		if f.name == name {
			return f.value
		}
	}
	return nil
}

// has is true when there is an entry at the path, whatever its value.
func (n *node) has(path ...string) bool {
	for i, name := range path {
		if n == nil {
			return false
		}
		if i == len(path)-1 {
			return n.entry(name) != nil
		}
		n = n.get(name)
	}
	return false
}

// place returns the node at the path below n, or its nearest ancestor that
// exists.
func (n *node) place(path ...string) *node {
	for _, name := range path {
		child := n.get(name)
		if child == nil {
			return n
		}
		n = child
	}
	return n
}

// kindName is a kind for people.
func (n *node) kindName() string {
	switch n.kind {
	case scalar:
		return "one value"
	case list:
		return "a list"
	case mapping:
		return "a mapping"
	default:
		return "nothing"
	}
}

// converter makes nodes of the parser's tree.
type converter struct {
	src     *source
	faults  *faults
	anchors map[string]*node
}

func (c *converter) node(n ast.Node) *node {
	if n == nil {
		return &node{src: c.src}
	}
	out := &node{src: c.src}
	if tk := n.GetToken(); tk != nil && tk.Position != nil {
		out.line, out.column = tk.Position.Line, tk.Position.Column
	}
	switch n := n.(type) {
	case *ast.NullNode:
	case *ast.StringNode:
		out.kind, out.text = scalar, n.Value
	case *ast.LiteralNode:
		out.kind, out.text = scalar, n.Value.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		out.kind, out.text, out.number = scalar, n.GetToken().Value, true
	case *ast.BoolNode:
		out.kind, out.text, out.boolean = scalar, n.Token.Value, true
	case *ast.SequenceNode:
		out.kind = list
		for _, item := range n.Values {
			out.items = append(out.items, c.node(item))
		}
	case *ast.MappingNode:
		c.mapping(out, n.Values)
	case *ast.MappingValueNode:
		c.mapping(out, []*ast.MappingValueNode{n})
	case *ast.AnchorNode:
		value := c.node(n.Value)
		c.anchors[n.Name.GetToken().Value] = value
		return value
	case *ast.AliasNode:
		return c.alias(n, out)
	case *ast.TagNode:
		c.faults.node(out, "", "YAML tags are not supported", "write the value without "+n.Start.Value)
		return c.node(n.Value)
	default:
		c.faults.node(out, "", "this kind of YAML is not supported", "write a value, a list or a mapping")
	}
	return out
}

func (c *converter) alias(n *ast.AliasNode, out *node) *node {
	if n.Value != nil {
		if value := c.anchors[n.Value.GetToken().Value]; value != nil {
			return value
		}
	}
	c.faults.node(out, "", "this alias names no anchor above it", "write the value out, or quote it if it is text")
	out.kind = scalar // not also reported as nothing
	return out
}

func (c *converter) mapping(out *node, values []*ast.MappingValueNode) {
	out.kind = mapping
	for i, entry := range values {
		key := entry.Key.GetToken()
		f := field{name: key.Value, line: out.line, column: out.column}
		if key.Position != nil {
			f.line, f.column = key.Position.Line, key.Position.Column
		}
		if i == 0 && f.line > 0 {
			out.line, out.column = f.line, f.column
		}
		switch entry.Key.(type) {
		case *ast.MergeKeyNode:
			c.faults.at(c.src, f.line, f.column, "<<", "merge keys are not supported", "write common settings once under defaults:")
			continue
		case *ast.MappingKeyNode:
			c.faults.at(c.src, f.line, f.column, "", "complex keys are not supported", "write NAME: VALUE")
			continue
		}
		if earlier := out.entry(f.name); earlier != nil {
			c.faults.at(c.src, f.line, f.column, f.name, "the name "+quote(f.name)+" is already there"+lineRef(earlier.line), "keep one of them")
			continue
		}
		f.value = c.node(entry.Value)
		if f.value.kind == null {
			f.value = &node{src: c.src, line: f.line, column: f.column}
		}
		out.fields = append(out.fields, f)
	}
}

func (n *node) entry(name string) *field {
	for i := range n.fields {
		if n.fields[i].name == name {
			return &n.fields[i]
		}
	}
	return nil
}
