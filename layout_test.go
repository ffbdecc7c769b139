package dibs_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/dibs-run/dibs"

// border says what a package may import of ours, and why the line is there.
type border struct {
	may []string
	why string
}

// borders is the import table. Imports only point down; a package that is not
// listed here does not belong in the house yet.
func borders() map[string]border {
	return map[string]border{
		".":                 {nil, "the dictionary: everybody speaks it, so it may know nobody"},
		"schedule":          {nil, "a slot is a pure function of a rule and a time"},
		"policy":            {[]string{".", "schedule"}, "a decision is a pure function; it must be possible to table every answer"},
		"handler":           {[]string{"."}, "a handler talks to a destination and never to the database"},
		"command":           {[]string{"."}, "supervising a child is about processes, whatever they do"},
		"internal/sqlstore": {[]string{"."}, "one executor for all databases: it must not know which exist"},
		"store/storetest":   {[]string{"."}, "the suite is the contract; it sees a store only through the interfaces"},
		"store/postgres":    {[]string{".", "internal/sqlstore"}, "a dialect is data"},
		"store/sqlite":      {[]string{".", "internal/sqlstore"}, "a dialect is data"},
		"store/mysql":       {[]string{".", "internal/sqlstore"}, "a dialect is data"},
		"dispatch":          {[]string{".", "schedule", "policy"}, "deciding is the same for every door and needs no worker"},
		"runner":            {[]string{".", "schedule", "policy", "dispatch"}, "the life of a process must run on any store"},
		"internal/config":   {[]string{".", "schedule"}, "a file's meaning is the same without a database"},
		"internal/crontab":  {nil, "what a crontab says is a fact about a file, whatever becomes of its lines"},
		"internal/demo":     {[]string{"."}, "the demo uses the program as a person would, and a database to look at both sides"},
		"cli": {[]string{
			".", "schedule", "policy", "dispatch", "runner", "handler", "command", "internal/config", "internal/crontab", "internal/demo",
			"internal/sqlstore",
		}, "commands wire what is below; drivers are chosen above, by the program"},
		"cmd/dibs": {[]string{
			".", "cli", "store/postgres", "store/sqlite", "store/mysql", "internal/sqlstore",
		}, "the only place that links drivers"},
		"internal/testdb":             {[]string{"internal/testdb/server"}, "tests reach real servers through it; nothing else does"},
		"internal/testdb/server":      {nil, "starting a server is about processes"},
		"internal/testdb/withservers": {[]string{"internal/testdb/server"}, "the command behind make test"},
	}
}

// drivers may be linked by cmd/dibs, and by tests.
var drivers = []string{"github.com/jackc/pgx", "github.com/go-sql-driver/mysql", "github.com/ncruces/go-sqlite3"}

// mayLinkDrivers are the packages that open databases: the program, and what
// only tests import.
var mayLinkDrivers = []string{"cmd/dibs", "internal/testdb", "internal/testdb/server", "internal/testdb/withservers"}

func TestImportsPointDown(t *testing.T) {
	table := borders()
	for dir, imports := range productionImports(t) {
		b, listed := table[dir]
		if !listed {
			t.Errorf("package %s is not in the import table of layout_test.go: give it a line with its reason", dir)
			continue
		}
		for _, imp := range imports {
			if of, ours := inModule(imp); ours && !slices.Contains(b.may, of) {
				t.Errorf("%s imports %s; it may import %v, because: %s", dir, of, b.may, b.why)
			}
			for _, d := range drivers {
				if strings.HasPrefix(imp, d) && !slices.Contains(mayLinkDrivers, dir) {
					t.Errorf("%s imports the driver %s; drivers are linked by cmd/dibs alone", dir, imp)
				}
			}
		}
	}
}

func TestImportTableHasNoCycle(t *testing.T) {
	table := borders()
	var visit func(dir string, path []string)
	visit = func(dir string, path []string) {
		if slices.Contains(path, dir) {
			t.Fatalf("the import table has a circle: %v", append(path, dir))
		}
		for _, next := range table[dir].may {
			visit(next, append(path, dir))
		}
	}
	for dir := range table {
		visit(dir, nil)
	}
}

func TestNoPackageIsCalledUtil(t *testing.T) {
	for dir := range productionImports(t) {
		for _, bad := range []string{"util", "utils", "common", "helper", "helpers", "misc"} {
			if filepath.Base(dir) == bad {
				t.Errorf("%s: a package is named for its noun", dir)
			}
		}
	}
}

func TestNoInitRegistration(t *testing.T) {
	walkGo(t, func(path string) {
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc init()") {
			t.Errorf("%s: nothing registers itself at start", path)
		}
	})
}

func TestFilesStayReadable(t *testing.T) {
	walkGo(t, func(path string) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), "\n"); n > 450 {
			t.Errorf("%s has %d lines: split it by noun", path, n)
		}
	})
}

// inModule tells whether an import is ours and which folder it is.
func inModule(imp string) (string, bool) {
	if imp == module {
		return ".", true
	}
	return strings.CutPrefix(imp, module+"/")
}

// productionImports reads the imports of every package, tests aside.
func productionImports(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	walkGo(t, func(path string) {
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		if file.Name.Name == "main" && strings.HasPrefix(filepath.Base(path), "gen") {
			return // a generator, run by hand
		}
		dir := filepath.ToSlash(filepath.Dir(path))
		if _, seen := all[dir]; !seen {
			all[dir] = nil // a package without imports counts too
		}
		for _, spec := range file.Imports {
			imp, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			all[dir] = append(all[dir], imp)
		}
	})
	if len(all) < 5 {
		t.Fatalf("found only %d packages: the test looks in the wrong place", len(all))
	}
	return all
}

func walkGo(t *testing.T, visit func(path string)) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != "." || d.Name() == "testdata" || d.Name() == "bin") {
			return fs.SkipDir
		}
		if strings.HasSuffix(path, ".go") {
			visit(path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(fmt.Errorf("walk the tree: %w", err))
	}
}
