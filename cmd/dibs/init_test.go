package main

import (
	"path/filepath"
	"testing"

	"github.com/dibs-run/dibs/internal/testdb"
)

// Many processes may set up one database at the same instant, also a file that
// is not there yet.
func TestFiftyInitsAtOnce(t *testing.T) {
	binary := buildBinary(t)
	testdb.All(t, func(t *testing.T, kind, url string) {
		w := &world{t: t, binary: binary, dir: t.TempDir(), url: url, kind: kind}
		if kind == "sqlite" {
			url = "sqlite:" + filepath.Join(w.dir, "new.db")
		}
		inits := make([]*process, 50)
		for i := range inits {
			inits[i] = w.start("init", "--db", url)
		}
		for _, p := range inits {
			w.wantCode(p, 0)
		}
		w.db = testdb.Open(t, url)
		w.want("1", "SELECT count(*) FROM dibs_meta WHERE name = 'installation'")
	})
}
