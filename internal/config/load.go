package config

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/schedule"
)

// File is a loaded configuration: the file and what it includes.
type File struct {
	// Path is the main file, as it was given or found.
	Path string
	// Files are all files that were read, the main one first.
	Files []string
	// Database is the file's database URL after interpolation; it may hold a
	// password. Empty when the file names none. A relative sqlite path is
	// relative to the file's folder: see [Database].
	Database string
	// Installation is the ID that the database must have, or empty.
	Installation string
	// Jobs in the order of the files.
	Jobs []*Job

	secrets []string
}

// Job returns the job with a name, or nil.
func (f *File) Job(name string) *Job {
	for _, j := range f.Jobs {
		if j.Name == name {
			return j
		}
	}
	return nil
}

// Nearest returns the job name that is most like name, or "".
func (f *File) Nearest(name string) string {
	var names []string
	for _, j := range f.Jobs {
		names = append(names, j.Name)
	}
	return nearest(name, names)
}

// Redact replaces every value in text that came from the environment or from a
// secret's file by ***. Values under four bytes stay: they would tear up
// everything else.
func (f *File) Redact(text string) string {
	for _, secret := range f.secrets {
		text = strings.ReplaceAll(text, secret, "***")
	}
	return text
}

// Secrets are the values that came from the environment or from a secret's file
// and that Redact replaces, the longest first.
func (f *File) Secrets() []string { return slices.Clone(f.secrets) }

// loader is the state of one Load.
type loader struct {
	decoder
	file *File
	// seen says where each job's name was first used.
	seen     map[string]*node
	defaults *node
	open     []openChoice
	zones    schedule.Zones // loaded once for all jobs
}

// Load reads the file at path and everything it includes. Lookup answers for
// environment variables (os.LookupEnv). The error joins all faults, each a
// [*Fault] that unwraps to a [*dibs.ConfigError]; then no File is returned.
func Load(ctx context.Context, path string, lookup func(string) (string, bool)) (*File, error) {
	if lookup == nil {
		lookup = func(string) (string, bool) { return "", false }
	}
	dir := filepath.Dir(path)
	l := &loader{
		decoder: decoder{
			expander: &expander{lookup: lookup, dir: dir, secrets: map[string]bool{}},
			faults:   &faults{},
		},
		file: &File{Path: path, Files: []string{path}},
		seen: map[string]*node{},
	}
	text, err := readLimited(path, maxFile)
	if err != nil {
		return nil, unreadable(path, err)
	}
	if root := parse(path, dir, text, l.faults); root != nil {
		if err := l.main(ctx, root); err != nil {
			return nil, err
		}
	}
	if err := l.faults.err(); err != nil {
		return nil, err
	}
	for _, j := range l.file.Jobs {
		j.Definition = definition(j.node)
	}
	for secret := range l.secrets {
		if len(secret) >= 4 {
			l.file.secrets = append(l.file.secrets, secret)
		}
	}
	slices.SortFunc(l.file.secrets, func(a, b string) int { return len(b) - len(a) })
	return l.file, nil
}

func unreadable(path string, err error) error {
	fix := "correct the path or make the file readable for this user"
	if errors.Is(err, os.ErrNotExist) {
		fix = "correct the path given by --config or $DIBS_CONFIG"
	}
	var pathErr *os.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err
	}
	return &dibs.ConfigError{Subject: path, Problem: "cannot read the file: " + err.Error(), Fix: fix}
}

// main decodes the main file, then the files it includes.
func (l *loader) main(ctx context.Context, root *node) error {
	var doc document
	jobs := root.get("jobs")
	rest := *root
	rest.fields = slices.DeleteFunc(slices.Clone(root.fields), func(f field) bool { return f.name == "jobs" })
	l.structure(&rest, reflect.ValueOf(&doc).Elem(), "")
	l.file.Database, l.file.Installation = doc.Database, doc.Installation
	if doc.Database != "" {
		if _, err := parseURL(doc.Database); err != nil {
			l.faults.node(root.get("database"), "database", err.problem, err.fix)
		}
	}
	l.defaults = onlySettings(root.get("defaults"))
	if d := doc.Defaults; d != nil {
		checkZone(&l.zones, l.faults, root.get("defaults").place("time_zone"), d.TimeZone, "defaults.time_zone")
	}
	l.jobs(jobs)
	for _, pattern := range doc.Include {
		if err := l.include(ctx, root.get("include"), pattern); err != nil {
			return err
		}
	}
	l.reportOpen()
	return nil
}

// jobs decodes a file's jobs.
func (l *loader) jobs(jobs *node) {
	if jobs == nil {
		return
	}
	if jobs.kind != mapping {
		fix := "write NAME: and the job's fields below it"
		if jobs.kind == null {
			fix = "write a job below it or remove the line"
		}
		l.faults.node(jobs, "jobs", "must be a mapping of names to jobs, this is "+jobs.kindName(), fix)
		return
	}
	for _, f := range jobs.fields {
		place := &node{src: jobs.src, line: f.line, column: f.column}
		path := join("jobs", f.name)
		if problem := checkName(f.name); problem != "" {
			l.faults.node(place, "jobs", problem, "choose a name of 1 to 200 bytes without control characters")
			continue
		}
		if first := l.seen[f.name]; first != nil {
			l.faults.node(place, path, fmt.Sprintf("the job is already defined at %s:%d", first.src.name, first.line), "rename or remove one of the two")
			continue
		}
		l.seen[f.name] = place
		l.job(f.name, f.value, place, path)
	}
}

// job decodes and checks one job.
func (l *loader) job(name string, n, place *node, path string) {
	j := &Job{Name: name, node: withDefaults(n, l.defaults)}
	if n.kind == null { // "name:" alone, for a job that only takes the defaults
		l.faults.node(place, path, "the job says nothing", "write its fields below it")
		return
	}
	l.structure(j.node, reflect.ValueOf(j).Elem(), path)
	if n.kind != mapping {
		return
	}
	(&checker{faults: l.faults, job: j, path: path, zones: &l.zones, ownZone: n.has("time_zone")}).check()
	l.findOpen(j, place)
	l.file.Jobs = append(l.file.Jobs, j)
}

// include reads the files that a pattern names. A pattern with wildcards may
// match nothing; a plain name may not.
func (l *loader) include(ctx context.Context, at *node, pattern string) error {
	full := pattern
	if !filepath.IsAbs(full) {
		full = filepath.Join(l.dir, full)
	}
	paths, err := filepath.Glob(full)
	if err != nil {
		l.faults.node(at, "include", quote(pattern)+" is not a pattern", "use * and ? as the shell does, such as jobs.d/*.yaml")
		return nil //nolint:nilerr // it is among the faults
	}
	if len(paths) == 0 && !strings.ContainsAny(pattern, "*?[") {
		l.faults.node(at, "include", "there is no file "+full, "correct the path; it is relative to this file")
	}
	for _, path := range paths {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("load %s: %w", path, err)
		}
		if slices.Contains(l.file.Files, path) {
			continue // two patterns may name it
		}
		l.file.Files = append(l.file.Files, path)
		text, err := readLimited(path, maxFile)
		if err != nil {
			l.faults.node(at, "include", unreadable(path, err).Error(), "")
			continue
		}
		l.included(path, text)
	}
	return nil
}

// included decodes one included file, which holds jobs alone.
func (l *loader) included(path string, text []byte) {
	root := parse(path, filepath.Dir(path), text, l.faults)
	if root == nil {
		return
	}
	for _, f := range root.fields {
		if f.name == "jobs" {
			continue
		}
		fix := "move it to " + l.file.Path
		if _, _, known := lookupField(reflect.TypeFor[document](), f.name); !known {
			fix = "write jobs: and the jobs below it"
		}
		l.faults.at(root.src, f.line, f.column, "", "unknown field "+quote(f.name)+": an included file holds jobs: and nothing else", fix)
	}
	l.jobs(root.get("jobs"))
}
