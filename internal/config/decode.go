package config

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// maxVisits bounds the work that aliases of aliases can cause.
const maxVisits = 200_000

// decoder fills Go values from nodes. It goes on after a fault, so that all
// faults come at once.
type decoder struct {
	*expander
	faults *faults
	visits int
}

// value fills v, which is addressable, from n. Tag is the field's own.
func (d *decoder) value(n *node, v reflect.Value, path string, tag reflect.StructTag) {
	if d.visits++; d.visits > maxVisits {
		d.faults.at(n.src, 0, 0, "", "the file's aliases make it too large", "write fewer aliases")
		return
	}
	if n.kind == null {
		d.faults.node(n, path, "has no value", "write one or remove the line")
		return
	}
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		d.value(n, v.Elem(), path, tag)
		return
	}
	switch into := v.Addr().Interface().(type) {
	case texted:
		d.texted(n, into, v, path, tag)
		return
	case *Schedule:
		if n.kind == scalar {
			into.Cron, _ = d.given(n, path)
			return
		}
	case *CatchUp:
		if n.kind == scalar {
			mode, _ := v.Type().FieldByName("Mode")
			d.word(n, v.FieldByIndex(mode.Index), path, mode.Tag)
			return
		}
	case *Names:
		if n.kind == scalar {
			if text, ok := d.given(n, path); ok {
				*into = Names{text}
			}
			return
		}
	}
	switch v.Kind() {
	case reflect.Struct:
		d.structure(n, v, path)
	case reflect.Map:
		d.stringMap(n, v, path)
	case reflect.Slice:
		d.slice(n, v, path)
	case reflect.Int:
		d.integer(n, v, path, tag)
	case reflect.Bool:
		d.boolean(n, v, path)
	default:
		d.word(n, v, path, tag)
	}
}

// text is a scalar's text after interpolation; false when there is none.
func (d *decoder) text(n *node, path string) (string, bool) {
	if n.kind != scalar {
		d.faults.node(n, path, "must be one value, this is "+n.kindName(), "")
		return "", false
	}
	text, err := d.expand(n.text)
	if err != nil {
		d.faults.node(n, path, err.problem, err.fix)
		return "", false
	}
	return text, true
}

// given is text that must not be empty.
func (d *decoder) given(n *node, path string) (string, bool) {
	text, ok := d.text(n, path)
	if ok && text == "" {
		d.faults.node(n, path, shown(n)+" is empty", "write a value or remove the line")
		return "", false
	}
	return text, ok
}

// shown is a value for messages: as the file has it, so that no secret shows.
func shown(n *node) string {
	text := hideSecrets(n.text)
	if len(text) > 60 {
		text = strings.ToValidUTF8(text[:60], "") + "…"
	}
	return quote(text)
}

func (d *decoder) texted(n *node, into texted, v reflect.Value, path string, tag reflect.StructTag) {
	text, ok := d.given(n, path)
	if !ok {
		return
	}
	if err := into.parse(text); err != nil {
		fix := err.fix
		if text != n.text && strings.Contains(fix, text) {
			fix = ""
		}
		d.faults.node(n, path, shown(n)+" "+err.problem, fix)
		return
	}
	if _, isDuration := into.(*Duration); isDuration && v.Int() == 0 && tag.Get("zero") == "" {
		d.faults.node(n, path, shown(n)+" is no time at all", durationFix)
	}
}

// word fills a string, of an enum if the tag says so.
func (d *decoder) word(n *node, v reflect.Value, path string, tag reflect.StructTag) {
	read := d.given
	if tag == "" { // an item of a list or a value of a mapping: an empty argument is one
		read = d.text
	}
	text, ok := read(n, path)
	if !ok {
		return
	}
	enum := tag.Get("enum")
	if enum == "" {
		v.SetString(text)
		return
	}
	words := strings.Split(enum, ",")
	later := strings.Split(tag.Get("later"), ",")
	now := slices.DeleteFunc(slices.Clone(words), func(w string) bool { return slices.Contains(later, w) })
	switch {
	case slices.Contains(now, text):
		v.SetString(text)
	case slices.Contains(words, text):
		d.faults.node(n, path, quote(text)+" is not in this version", "write one of: "+strings.Join(now, ", "))
		v.SetString(text)
	default:
		fix := "write one of: " + strings.Join(now, ", ")
		if near := nearest(text, words); near != "" {
			fix = "did you mean " + near + "? " + fix
		}
		d.faults.node(n, path, shown(n)+" is not a word for this", fix)
	}
}

func (d *decoder) integer(n *node, v reflect.Value, path string, tag reflect.StructTag) {
	text, ok := d.given(n, path)
	if !ok {
		return
	}
	number, err := strconv.Atoi(text)
	least, _ := strconv.Atoi(tag.Get("min"))
	switch {
	case err != nil || len(text) > 1 && strings.HasPrefix(text, "0"):
		d.faults.node(n, path, shown(n)+" is not a whole number", "write it in plain digits")
	case !n.number && text == n.text:
		d.faults.node(n, path, shown(n)+" is text", "write "+text+" without quotes")
	case number < least:
		d.faults.node(n, path, fmt.Sprintf("%s is less than %d", shown(n), least), "")
	default:
		v.SetInt(int64(number))
	}
}

func (d *decoder) boolean(n *node, v reflect.Value, path string) {
	text, ok := d.given(n, path)
	if !ok {
		return
	}
	if text != "true" && text != "false" || !n.boolean && text == n.text {
		d.faults.node(n, path, shown(n)+" is not true or false", "write true or false")
		return
	}
	v.SetBool(text == "true")
}

func (d *decoder) slice(n *node, v reflect.Value, path string) {
	if n.kind != list {
		d.faults.node(n, path, "must be a list, this is "+n.kindName(), "write [A, B] or one line per item beginning with -")
		return
	}
	if len(n.items) == 0 {
		d.faults.node(n, path, "the list is empty", "write a value or remove the line")
	}
	for i, item := range n.items {
		v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
		d.value(item, v.Index(i), fmt.Sprintf("%s[%d]", path, i), "")
	}
}

func (d *decoder) stringMap(n *node, v reflect.Value, path string) {
	if n.kind != mapping {
		d.faults.node(n, path, "must be a mapping, this is "+n.kindName(), "write NAME: VALUE lines")
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for _, f := range n.fields {
		elem := reflect.New(v.Type().Elem()).Elem()
		d.value(f.value, elem, join(path, f.name), "")
		v.SetMapIndex(reflect.ValueOf(f.name).Convert(v.Type().Key()), elem)
	}
}

func (d *decoder) structure(n *node, v reflect.Value, path string) {
	if n.kind != mapping {
		d.faults.node(n, path, "must be a mapping, this is "+n.kindName(), "its fields are: "+strings.Join(fieldNames(v.Type()), ", "))
		return
	}
	for _, f := range n.fields {
		index, tag, known := lookupField(v.Type(), f.name)
		switch {
		case !known:
			d.unknown(n, f, v.Type(), path)
		case tag.Get("later") == "*":
			d.faults.at(n.src, f.line, f.column, join(path, f.name), "is not in this version", "remove it")
		default:
			d.value(f.value, v.FieldByIndex(index), join(path, f.name), tag)
		}
	}
	for _, f := range reflect.VisibleFields(v.Type()) {
		name := f.Tag.Get("yaml")
		if f.Tag.Get("must") == "yes" && n.entry(name) == nil {
			d.faults.node(n, path, name+" is missing", "add "+name+": …")
		}
	}
}

// unknown reports a field that the file's grammar does not have.
func (d *decoder) unknown(n *node, f field, t reflect.Type, path string) {
	names := fieldNames(t)
	fix := "the fields here are: " + strings.Join(names, ", ")
	if near := nearest(f.name, names); near != "" {
		fix = "did you mean " + near + "?"
	} else if home := homeOf(f.name, reflect.TypeFor[Job](), ""); home != "" && !strings.HasSuffix(path, home) {
		fix = quote(f.name) + " belongs under " + home + ":"
	}
	src := n.src
	if f.value != nil && f.value.src != nil {
		src = f.value.src
	}
	d.faults.at(src, f.line, f.column, path, "unknown field "+quote(f.name), fix)
}

// homeOf finds the block of a job that has a field of this name.
func homeOf(name string, t reflect.Type, home string) string {
	for _, f := range reflect.VisibleFields(t) {
		if f.Anonymous || f.Tag.Get("yaml") == "" || f.Tag.Get("later") == "*" {
			continue
		}
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		if f.Tag.Get("yaml") == name && home != "" {
			return home
		}
		if inner.Kind() == reflect.Struct && inner.PkgPath() == t.PkgPath() {
			if found := homeOf(name, inner, f.Tag.Get("yaml")); found != "" {
				return found
			}
		}
	}
	return ""
}

// lookupField finds the field with a name in the tags of a struct.
func lookupField(t reflect.Type, name string) (index []int, tag reflect.StructTag, ok bool) {
	for _, f := range reflect.VisibleFields(t) {
		if !f.Anonymous && name != "-" && f.IsExported() && f.Tag.Get("yaml") == name {
			return f.Index, f.Tag, true
		}
	}
	return nil, "", false
}

// fieldNames lists the names that a struct accepts.
func fieldNames(t reflect.Type) []string {
	var names []string
	for _, f := range reflect.VisibleFields(t) {
		if name := f.Tag.Get("yaml"); !f.Anonymous && name != "" && name != "-" && f.Tag.Get("later") != "*" {
			names = append(names, name)
		}
	}
	return names
}

func join(path, name string) string {
	if path == "" || name == "" {
		return path + name
	}
	return path + "." + name
}
