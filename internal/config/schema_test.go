package config

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/invopop/jsonschema"
)

// update rewrites the golden files, the schema and the reference page:
//
//	go test ./internal/config -update
var update = flag.Bool("update", false, "rewrite generated and golden files")

const (
	numberUnit = `[0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h)`
	oneTime    = `([0-9]+d(` + numberUnit + `)*|(` + numberUnit + `)+)`
	reference  = `\$\{`
)

func text(pattern string) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Pattern: pattern}
}

// orReference allows ${…} where the type is not text.
func orReference(s *jsonschema.Schema) *jsonschema.Schema {
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{s, text(reference)}}
}

// mapped are the types that do not look in YAML as they look in Go.
func mapped(t reflect.Type) *jsonschema.Schema {
	integer := &jsonschema.Schema{Type: "integer", Minimum: "100", Maximum: "599"}
	boolean := &jsonschema.Schema{Type: "boolean"}
	plain := &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "string"}, {Type: "number"}, boolean}}
	one := uint64(1)
	switch t {
	case reflect.TypeFor[Duration]():
		return text(`^(0|` + oneTime + `|.*` + reference + `.*)$`)
	case reflect.TypeFor[Backoff]():
		return text(`^(` + oneTime + ` *\.\. *` + oneTime + `|.*` + reference + `.*)$`)
	case reflect.TypeFor[Switch]():
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{boolean, text(`^(on|off|.*` + reference + `.*)$`)}}
	case reflect.TypeFor[FailWhen]():
		return text(`^(any|all|[0-9]+(\.[0-9]+)?%|.*` + reference + `.*)$`)
	case reflect.TypeFor[StatusCode]():
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{integer, text(`^([1-5][0-9][0-9]|[1-5][xX][xX]|.*` + reference + `.*)$`)}}
	case reflect.TypeFor[Pointer]():
		return text(`^(/|.*` + reference + `)`)
	case reflect.TypeFor[Names]():
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "string"}, {Type: "array", Items: plain, MinItems: &one}}}
	case reflect.TypeFor[[]string]():
		return &jsonschema.Schema{Type: "array", MinItems: &one, Items: plain}
	case reflect.TypeFor[Labels](), reflect.TypeFor[Headers]():
		return &jsonschema.Schema{Type: "object", AdditionalProperties: plain}
	}
	return nil
}

// generate makes the schema of the structs in types.go.
func generate(t *testing.T) []byte {
	t.Helper()
	r := jsonschema.Reflector{
		FieldNameTag: "yaml", Anonymous: true, ExpandedStruct: true,
		RequiredFromJSONSchemaTags: true, Mapper: mapped,
	}
	root := r.Reflect(document{})
	root.Title = "dibs.yaml"
	types := map[string]reflect.Type{}
	collect(reflect.TypeFor[document](), types)
	refine(root, reflect.TypeFor[document]())
	for name, def := range root.Definitions {
		if types[name] == nil {
			t.Fatalf("the schema defines %s, which is no block of the file", name)
		}
		refine(def, types[name])
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(root); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// collect finds every struct of the grammar by its name.
func collect(t reflect.Type, into map[string]reflect.Type) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Map || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || into[t.Name()] != nil || t == reflect.TypeFor[node]() {
		return
	}
	into[t.Name()] = t
	for _, f := range reflect.VisibleFields(t) {
		collect(f.Type, into)
	}
}

// refine adds what the tags say to a struct's schema.
func refine(s *jsonschema.Schema, t reflect.Type) {
	for _, f := range reflect.VisibleFields(t) {
		name := f.Tag.Get("yaml")
		prop, ok := s.Properties.Get(name)
		if !ok {
			continue
		}
		if f.Tag.Get("later") == "*" {
			s.Properties.Delete(name)
			continue
		}
		switch {
		case f.Tag.Get("enum") != "":
			words := &jsonschema.Schema{Type: "string"}
			for _, w := range acceptedWords(f.Tag) {
				words.Enum = append(words.Enum, w)
			}
			prop = orReference(words)
		case f.Type.Kind() == reflect.Int:
			prop.Minimum = json.Number(f.Tag.Get("min"))
			prop = orReference(prop)
		case f.Type.Kind() == reflect.Bool:
			prop = orReference(prop)
		case f.Type == reflect.TypeFor[*CatchUp]():
			mode, _ := reflect.TypeFor[CatchUp]().FieldByName("Mode")
			words := &jsonschema.Schema{Type: "string"}
			for _, w := range acceptedWords(mode.Tag) {
				words.Enum = append(words.Enum, w)
			}
			prop = &jsonschema.Schema{AnyOf: []*jsonschema.Schema{orReference(words), {Ref: prop.Ref}}}
		case f.Type == reflect.TypeFor[*Schedule]():
			prop = &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "string"}, {Ref: prop.Ref}}}
		}
		prop.Description = f.Tag.Get("doc")
		s.Properties.Set(name, prop)
		if f.Tag.Get("must") == "yes" {
			s.Required = append(s.Required, name)
		}
	}
}

func acceptedWords(tag reflect.StructTag) []string {
	later := strings.Split(tag.Get("later"), ",")
	return slices.DeleteFunc(strings.Split(tag.Get("enum"), ","), func(w string) bool { return slices.Contains(later, w) })
}

// golden compares with a file, or rewrites it under -update.
func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; if that is meant, run: go test ./internal/config -update\n--- got\n%s\n--- want\n%s", path, got, want)
	}
}

func TestSchemaIsGenerated(t *testing.T) {
	got := generate(t)
	golden(t, "dibs.schema.json", got)
	golden(t, "../../docs/dibs.schema.json", got)
	if !*update && !bytes.Equal(Schema(), got) {
		t.Error("Schema() is not what the structs say")
	}
}

func TestSchemaKnowsTheFieldsOfTheDecoder(t *testing.T) {
	var root jsonschema.Schema
	if err := json.Unmarshal(Schema(), &root); err != nil {
		t.Fatal(err)
	}
	types := map[string]reflect.Type{}
	collect(reflect.TypeFor[Job](), types)
	for name, def := range root.Definitions {
		var got []string
		for p := def.Properties.Oldest(); p != nil; p = p.Next() {
			got = append(got, p.Key)
			if p.Value.Description == "" {
				t.Errorf("%s.%s has no description", name, p.Key)
			}
		}
		if want := fieldNames(types[name]); !sameSet(got, want) {
			t.Errorf("%s: the schema has %v, the decoder %v", name, got, want)
		}
		if def.AdditionalProperties == nil {
			t.Errorf("%s accepts unknown fields", name)
		}
	}
}

func sameSet(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

// Every good file fits the schema, and each of these does not.
func TestSchemaJudgesAsTheDecoderDoes(t *testing.T) {
	var root map[string]any
	if err := json.Unmarshal(Schema(), &root); err != nil {
		t.Fatal(err)
	}
	for _, path := range files(t, "testdata/good/*.yaml") {
		if problem := violation(root, root, plainValue(t, path), ""); problem != "" {
			t.Errorf("%s: %s", path, problem)
		}
	}
	for _, body := range []string{
		"colour: red", "jobs: {a: {overlap: quue}}", "jobs: {a: {lease: 60}}", "jobs: {a: {lease: -5s}}",
		"jobs: {a: {lease: soon}}", "jobs: {a: {batch: 0}}", "jobs: {a: {batch: \"10\"}}", "jobs: {a: {retry: {backoff: 5s}}}",
		"jobs: {a: {handler: {exec: ls}}}", "jobs: {a: {source: {table: t}}}", "jobs: {a: {lookup: {shell: x}}}",
		"jobs: {a: {handler: {http: {url: x, id: id}}}}", "jobs: {a: {fail_when: often}}", "jobs: {a: {on_uncertain: maybe}}",
		"jobs: {a: {source: {table: t, key: [], one_shot: 1}}}", "jobs: {a: {handler: {http: {url: x, status: {done: [7]}}}}}",
	} {
		path := filepath.Join(t.TempDir(), "x.yaml")
		if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
		if violation(root, root, plainValue(t, path), "") == "" {
			t.Errorf("the schema accepts %s", body)
		}
	}
}

// plainValue reads a file as an editor's YAML reader would.
func plainValue(t *testing.T, path string) any {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var bad faults
	root := parse(path, ".", raw, &bad)
	if root == nil {
		t.Fatal(bad.err())
	}
	var v any
	if err := json.Unmarshal([]byte(definition(root)), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// reference page

const marker = "<!-- The rest is generated from the tags in internal/config/types.go. -->\n"

func TestReferencePageIsGenerated(t *testing.T) {
	const path = "../../docs/configuration.md"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, _, found := strings.Cut(string(page), marker)
	if !found {
		t.Fatalf("%s has lost the line %q", path, marker)
	}
	var out strings.Builder
	out.WriteString(head + marker)
	section(&out, "The file", reflect.TypeFor[document](), "")
	section(&out, "jobs.NAME", reflect.TypeFor[Job](), "`defaults` may hold the first "+strconv.Itoa(len(fieldNames(reflect.TypeFor[Settings]())))+" of these too.")
	golden(t, path, []byte(out.String()))
}

func section(out *strings.Builder, title string, t reflect.Type, note string) {
	if title == "The file" {
		out.WriteString("\n## The file\n\n")
	} else {
		fmt.Fprintf(out, "\n## `%s`\n\n", title)
	}
	if note != "" {
		out.WriteString(note + "\n\n")
	}
	out.WriteString("| field | value | meaning |\n|---|---|---|\n")
	var inner []reflect.StructField
	for _, f := range reflect.VisibleFields(t) {
		name := f.Tag.Get("yaml")
		if f.Anonymous || name == "" || name == "-" || f.Tag.Get("later") == "*" {
			continue
		}
		must := ""
		if f.Tag.Get("must") == "yes" {
			must = "Required. "
		}
		fmt.Fprintf(out, "| `%s` | %s | %s%s |\n", name, valueKind(f), must, strings.ReplaceAll(f.Tag.Get("doc"), "|", "\\|"))
		if f.Type.Kind() == reflect.Pointer && f.Type.Elem().Kind() == reflect.Struct && title != "The file" {
			inner = append(inner, f)
		}
	}
	for _, f := range inner {
		section(out, strings.TrimPrefix(title+"."+f.Tag.Get("yaml"), "jobs.NAME."), f.Type.Elem(), "")
	}
}

// valueKind names a field's value for people.
func valueKind(f reflect.StructField) string {
	if f.Tag.Get("enum") != "" {
		return "`" + strings.Join(acceptedWords(f.Tag), "`, `") + "`"
	}
	t := f.Type
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t {
	case reflect.TypeFor[Duration]():
		return "duration"
	case reflect.TypeFor[Backoff]():
		return "`MIN..MAX`"
	case reflect.TypeFor[Switch]():
		return "`on`, `off`"
	case reflect.TypeFor[FailWhen]():
		return "`any`, `all`, `N%`"
	case reflect.TypeFor[Names]():
		return "text or list"
	case reflect.TypeFor[CatchUp]():
		return "a word, or a mapping"
	case reflect.TypeFor[Schedule]():
		return "text or mapping"
	}
	switch t.Kind() {
	case reflect.Int:
		return "number"
	case reflect.Bool:
		return "`true`, `false`"
	case reflect.Slice:
		return "list"
	case reflect.String:
		return "text"
	default:
		return "mapping"
	}
}
