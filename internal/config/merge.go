package config

import (
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// withDefaults returns the job with the fields of defaults that it does not
// have. Mappings (retry, labels) are merged entry by entry, no deeper; anything
// else is taken whole. Neither argument is changed.
func withDefaults(job, defaults *node) *node { return merged(job, defaults, 2) }

func merged(job, defaults *node, levels int) *node {
	if levels == 0 || job.kind != mapping || defaults == nil || defaults.kind != mapping {
		return job
	}
	out := *job
	out.fields = slices.Clone(job.fields)
	for _, f := range defaults.fields {
		own := out.entry(f.name)
		switch {
		case own == nil:
			out.fields = append(out.fields, f)
		case own.value.kind == mapping && f.value.kind == mapping:
			own.value = merged(own.value, f.value, levels-1)
		}
	}
	return &out
}

// onlySettings drops what defaults: may not hold; the decoder has reported it.
func onlySettings(defaults *node) *node {
	if defaults == nil || defaults.kind != mapping {
		return nil
	}
	out := *defaults
	known := fieldNames(reflect.TypeFor[Settings]())
	out.fields = slices.DeleteFunc(slices.Clone(defaults.fields), func(f field) bool { return !slices.Contains(known, f.name) })
	return &out
}

// definition renders a node as indented JSON with sorted names, before
// interpolation.
func definition(n *node) string {
	var b strings.Builder
	render(&b, n, "")
	return b.String()
}

func render(b *strings.Builder, n *node, indent string) {
	const step = "  "
	switch n.kind {
	case mapping:
		fields := slices.Clone(n.fields)
		slices.SortFunc(fields, func(a, b field) int { return strings.Compare(a.name, b.name) })
		b.WriteString("{")
		for i, f := range fields {
			separate(b, i, indent+step)
			renderText(b, f.name)
			b.WriteString(": ")
			render(b, f.value, indent+step)
		}
		b.WriteString("\n" + indent + "}")
	case list:
		b.WriteString("[")
		for i, item := range n.items {
			if i > 0 {
				b.WriteString(", ")
			}
			render(b, item, indent+step)
		}
		b.WriteString("]")
	case scalar:
		if n.boolean && (n.text == "true" || n.text == "false") || n.number && isInteger(n.text) {
			b.WriteString(n.text)
			return
		}
		renderText(b, n.text)
	default:
		b.WriteString("null")
	}
}

// isInteger is true for what JSON also writes so: 007 and +5 it does not.
func isInteger(text string) bool {
	i, err := strconv.ParseInt(text, 10, 64)
	return err == nil && strconv.FormatInt(i, 10) == text
}

func separate(b *strings.Builder, i int, indent string) {
	if i > 0 {
		b.WriteString(",")
	}
	b.WriteString("\n" + indent)
}

func renderText(b *strings.Builder, text string) {
	var out strings.Builder
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(text); err != nil { // a string always encodes
		out.WriteString(strconv.Quote(text))
	}
	b.WriteString(strings.TrimSuffix(out.String(), "\n"))
}
