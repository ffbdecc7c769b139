package config

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dibs-run/dibs"
)

func TestParseURL(t *testing.T) {
	for _, c := range []struct {
		in           string
		kind         Kind
		dsn, display string
		installation string
	}{
		{"sqlite:dibs.db", SQLite, "dibs.db", "sqlite:dibs.db", ""},
		{"sqlite:///srv/a%20b.db?installation=i1", SQLite, "/srv/a b.db", "sqlite:/srv/a b.db", "i1"},
		{"sqlite:/srv/100%.db", SQLite, "/srv/100%.db", "sqlite:/srv/100%.db", ""},
		{"postgres://u:p%40w@h:5433/db?sslmode=require&installation=i2", Postgres, "postgres://u:p%40w@h:5433/db?sslmode=require", "postgres://u@h:5433/db", "i2"},
		{"postgresql://h/db", Postgres, "postgres://h/db", "postgres://h/db", ""},
		{"postgres://h1:1,h2:2/db", Postgres, "postgres://h1:1,h2:2/db", "postgres://h1:1,h2:2/db", ""},
		{"postgres:///db?host=/run/postgresql", Postgres, "postgres:///db?host=%2Frun%2Fpostgresql", "postgres:///db", ""},
		{"mysql://u:p%40w%2F@h/db?installation=i3", MySQL, "u:p@w/@tcp(h:3306)/db", "mysql://u@h/db", "i3"},
		{"mariadb://u@[::1]:3307/d%20b?tls=true", MySQL, "u@tcp([::1]:3307)/d%20b?tls=true", "mysql://u@[::1]:3307/d%20b", ""},
		{"mysql://u:p@localhost/db?socket=/run/my.sock", MySQL, "u:p@unix(/run/my.sock)/db", "mysql://u@localhost/db", ""},
	} {
		u, err := ParseURL(c.in)
		if err != nil {
			t.Errorf("%s: %v", c.in, err)
			continue
		}
		if u.Kind != c.kind || u.DSN != c.dsn || u.String() != c.display || u.Installation != c.installation {
			t.Errorf("%s:\n got %s %q %q %q\nwant %s %q %q %q", c.in, u.Kind, u.DSN, u, u.Installation, c.kind, c.dsn, c.display, c.installation)
		}
	}
}

func TestParseURLRefuses(t *testing.T) {
	for in, want := range map[string]string{
		"": "is not a database URL", "dibs.db": "is not a database URL", "host=h password=5ecret": "list of parameters",
		"oracle://u:5ecret@h/d": "none of sqlite", "sqlite:": "names no file", "sqlite::memory:": "in memory",
		"sqlite:x?mode=memory": "in memory", "sqlite:x?cache=shared": `parameter "cache"`, "sqlite:x?a=%zz": "malformed parameters",
		"postgres://u:5ecret": "malformed", "postgres://u:5ecret@/db": "names no host", "postgres://u:5ec%ret@h/db": "malformed",
		"mysql://u:5ecret@h": "names no database", "postgres://u:5ecret@h/db?x=%zz": "malformed parameters",
	} {
		_, err := ParseURL(in)
		var fault *dibs.ConfigError
		if !errors.As(err, &fault) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "5ecret") {
			t.Errorf("%q: %v, want %q", in, err, want)
		}
	}
}

func TestDatabaseOrder(t *testing.T) {
	file := &File{Path: "/etc/dibs/dibs.yaml", Database: "sqlite:file.db", Installation: "inst_1"}
	env := map[string]string{}
	get := func(k string) string { return env[k] }
	system := true
	look := func(path string) bool { return path == systemDatabase && system }
	check := func(flag string, f *File, wantDSN, wantSource string) {
		t.Helper()
		u, source, err := database(flag, get, f, look)
		if err != nil || u.DSN != filepath.FromSlash(wantDSN) || source != wantSource {
			t.Errorf("%q from %q, %v; want %q from %q", u.DSN, source, err, wantDSN, wantSource)
		}
		if f != nil && u.Installation != "inst_1" {
			t.Errorf("the file's installation is lost: %q", u.Installation)
		}
	}
	env["DIBS_DATABASE_URL"], env["HOME"] = "sqlite:env.db", "/home/u?%"
	check("sqlite:flag.db", file, "flag.db", "--db")
	check("", file, "env.db", "$DIBS_DATABASE_URL")
	env["DIBS_DATABASE_URL"] = ""
	check("", file, "/etc/dibs/file.db", "/etc/dibs/dibs.yaml")
	check("", &File{Path: "dibs.yaml", Installation: "inst_1"}, systemDatabase, systemDatabase)
	system = false
	check("", nil, "/home/u?%/.local/state/dibs/dibs.db", "the user's state folder")
	env["XDG_STATE_HOME"] = "/state"
	check("", nil, "/state/dibs/dibs.db", "the user's state folder")
	env["XDG_STATE_HOME"] = "relative" // as the standard says: ignored
	check("", nil, "/home/u?%/.local/state/dibs/dibs.db", "the user's state folder")
	env["HOME"] = ""
	if _, _, err := database("", get, nil, look); err == nil || !strings.Contains(err.Error(), "--db") {
		t.Errorf("no home: %v", err)
	}
	if _, _, err := database("postgres://u:5ecret@/", get, nil, look); err == nil || strings.Contains(err.Error(), "5ecret") || !strings.HasPrefix(err.Error(), "--db: ") {
		t.Errorf("bad flag: %v", err)
	}
	file.Database = "sqlite:x?installation=inst_2"
	if _, _, err := database("", get, file, look); err == nil || !strings.Contains(err.Error(), "differ") {
		t.Errorf("two installations: %v", err)
	}
}

func TestFindOrder(t *testing.T) {
	there := []string{"given.yaml", "dibs.yaml", "env.yaml", "/xdg/dibs/dibs.yaml", "/home/u/.config/dibs/dibs.yaml", "/etc/dibs/dibs.yaml"}
	env := map[string]string{"DIBS_CONFIG": "env.yaml", "XDG_CONFIG_HOME": "/xdg", "HOME": "/home/u"}
	get := func(k string) string { return env[k] }
	look := func(path string) bool { return slices.Contains(there, filepath.ToSlash(path)) }
	flag := "given.yaml"
	for _, want := range there {
		got, err := find(flag, get, look)
		if err != nil || filepath.ToSlash(got) != want {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
		// take away what was found, by the means that named it
		there = slices.DeleteFunc(slices.Clone(there), func(p string) bool { return p == want })
		switch want {
		case "given.yaml":
			flag = ""
		case "env.yaml":
			env["DIBS_CONFIG"] = ""
		case "/xdg/dibs/dibs.yaml":
			env["XDG_CONFIG_HOME"] = ""
		}
	}
	if got, err := find("", get, look); got != "" || err != nil {
		t.Errorf("nowhere: %q %v", got, err)
	}
	env["DIBS_CONFIG"] = "gone.yaml"
	for _, flag := range []string{"gone.yaml", ""} {
		var fault *dibs.ConfigError
		if _, err := find(flag, get, look); !errors.As(err, &fault) {
			t.Errorf("a named file that is gone was passed over: %v", err)
		}
	}
}

func TestHideSecrets(t *testing.T) {
	for in, want := range map[string]string{
		"database: postgres://u:p@h/db":                  "database: postgres://u:***@h/db",
		`a: "mysql://u:p/@x@h/db" # x@y`:                 `a: "mysql://u:***@h/db" # x@y`,
		"url: postgres://u:${PW}@h/db?password=x&a=b":    "url: postgres://u:${PW}@h/db?password=***&a=b",
		"see https://h/a and https://u:p@h":              "see https://h/a and https://u:***@h",
		"Authorization: Bearer abc":                      "Authorization: ***",
		`{headers: {Authorization: "Bearer ${T}", a: b}`: `{headers: {Authorization: "Bearer ${T}", a: b}`,
		"X-Api-Key: abc":                                 "X-Api-Key: ***",
		"claim_token: my_column_is_hidden":               "claim_token: ***",
		"plain: text":                                    "plain: text",
		"token:":                                         "token:",
		"İİİ password=Ünï":                               "İİİ password=***",
	} {
		if got := hideSecrets(in); got != want {
			t.Errorf("%s\n got %s\nwant %s", in, got, want)
		}
	}
}

func TestNearest(t *testing.T) {
	known := []string{"schedule", "overlap", "time_zone", "max_items", "key"}
	for in, want := range map[string]string{
		"shedule": "schedule", "overalp": "overlap", "timeZone": "time_zone", "time-zone": "time_zone", "maxitems": "max_items",
		"kye": "key", "colour": "", "x": "", strings.Repeat("a", 100_000): "",
	} {
		if got := nearest(in, known); got != want {
			t.Errorf("%.20s: %q, want %q", in, got, want)
		}
	}
}

func TestDuration(t *testing.T) {
	for in, want := range map[string]string{
		"90s": "1m30s", "1h30m": "1h30m0s", "1d": "24h0m0s", "1d12h": "36h0m0s", "500ms": "500ms", "0s": "0s", "0": "0s", "1.5h": "1h30m0s",
		"-5s": "is negative", "60": "no unit", "": "not a duration", "d": "not a duration", "1d-2h": "not a duration", "1x": "not a duration",
		"9999999999h": "not a duration", "36500d2400000h": "too long", "-": "is negative", "1w": "not a duration", "+5s": "not a duration", "NaN": "no unit",
	} {
		var d Duration
		err := d.parse(in)
		if err == nil && time.Duration(d).String() != want || err != nil && !strings.Contains(err.problem, want) {
			t.Errorf("%q: %s, %v; want %s", in, time.Duration(d).String(), err, want)
		}
	}
}
