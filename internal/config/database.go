package config

import (
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/dibs-run/dibs"
)

// Kind is a kind of database.
type Kind string

// The kinds of databases.
const (
	SQLite   Kind = "sqlite"
	Postgres Kind = "postgres"
	MySQL    Kind = "mysql"
)

// URL is a database URL, taken apart.
type URL struct {
	Kind Kind
	// DSN is what the driver takes: for PostgreSQL the URL, for MySQL the
	// driver's user:password@tcp(host)/name?… form with the URL's own
	// parameters, for SQLite the file's path. It may hold a password.
	DSN string
	// Installation is the URL's installation= parameter, which DSN lacks.
	Installation string
	// Params are the URL's other parameters.
	Params url.Values

	display string
}

// String is the URL for people: no password and no parameters.
func (u URL) String() string { return u.display }

const urlFix = "write sqlite:PATH, postgres://USER@HOST/NAME or mysql://USER@HOST/NAME"

// ParseURL reads sqlite:PATH, postgres://, postgresql://, mysql:// and
// mariadb://, each with an optional installation=ID parameter. The error never
// repeats the URL, which may hold a password.
func ParseURL(text string) (URL, error) {
	u, bad := parseURL(text)
	if bad != nil {
		return URL{}, &dibs.ConfigError{Subject: "database", Problem: "the URL " + bad.problem, Fix: bad.fix}
	}
	return u, nil
}

func parseURL(text string) (URL, *urlFault) {
	scheme, rest, found := strings.Cut(text, ":")
	if !found {
		if strings.Contains(text, "=") {
			return URL{}, &urlFault{"is a list of parameters, not a URL", urlFix}
		}
		return URL{}, &urlFault{"is not a database URL", urlFix}
	}
	switch strings.ToLower(scheme) {
	case "sqlite", "sqlite3":
		return parseSQLite(rest)
	case "postgres", "postgresql":
		return parseServer(Postgres, text)
	case "mysql", "mariadb":
		return parseServer(MySQL, text)
	}
	return URL{}, &urlFault{"has a scheme that is none of sqlite, postgres and mysql", urlFix}
}

// urlFault says what is wrong with a database URL.
type urlFault struct{ problem, fix string }

func parseSQLite(rest string) (URL, *urlFault) {
	path, query, _ := strings.Cut(rest, "?")
	path = strings.TrimPrefix(path, "//") // sqlite:///absolute; sqlite://relative is what people also write
	params, err := url.ParseQuery(query)
	if err != nil {
		return URL{}, &urlFault{"has malformed parameters", "write ?installation=ID"}
	}
	if plain, err := url.PathUnescape(path); err == nil {
		path = plain
	}
	switch {
	case path == "":
		return URL{}, &urlFault{"names no file", "write sqlite:PATH"}
	case strings.Contains(path, ":memory:") || params.Get("mode") == "memory":
		return URL{}, &urlFault{"keeps the database in memory, where no other process sees it", "write sqlite:PATH"}
	case strings.ContainsAny(path, "\x00\n"):
		return URL{}, &urlFault{"has a control character in its path", "write sqlite:PATH"}
	}
	u := finish(URL{Kind: SQLite, DSN: path, Params: params, display: "sqlite:" + path})
	for name := range u.Params {
		return URL{}, &urlFault{"has a parameter " + quote(name) + " that means nothing for SQLite", "remove it; installation= is the only one"}
	}
	return u, nil
}

func parseServer(kind Kind, text string) (URL, *urlFault) {
	u, err := url.Parse(text)
	if err != nil {
		return URL{}, &urlFault{"is malformed", "percent-encode special signs in the password, such as %40 for @; " + urlFix}
	}
	params, err := url.ParseQuery(u.RawQuery)
	switch {
	case err != nil:
		return URL{}, &urlFault{"has malformed parameters", "write ?NAME=VALUE&NAME=VALUE"}
	case u.Host == "" && params.Get("host") == "":
		return URL{}, &urlFault{"names no host", urlFix}
	case kind == MySQL && strings.Trim(u.Path, "/") == "":
		return URL{}, &urlFault{"names no database", urlFix}
	}
	out := finish(URL{Kind: kind, Params: params})
	shown := url.URL{Scheme: string(kind), Host: u.Host, Path: u.Path}
	if name := u.User.Username(); name != "" {
		shown.User = url.User(name)
	}
	out.display = shown.String()
	if kind == MySQL {
		out.DSN = mysqlDSN(u, out.Params)
		return out, nil
	}
	u.Scheme, u.RawQuery = "postgres", out.Params.Encode()
	out.DSN = u.String()
	return out, nil
}

// finish takes installation= out of the parameters.
func finish(u URL) URL {
	u.Installation = u.Params.Get("installation")
	u.Params.Del("installation")
	return u
}

// mysqlDSN writes a URL in the form of the MySQL driver. A parameter socket=
// names a Unix socket instead of the host.
func mysqlDSN(u *url.URL, params url.Values) string {
	var b strings.Builder
	if name := u.User.Username(); name != "" {
		b.WriteString(name)
		if password, set := u.User.Password(); set {
			b.WriteString(":" + password)
		}
		b.WriteString("@")
	}
	if socket := params.Get("socket"); socket != "" {
		params.Del("socket")
		b.WriteString("unix(" + socket + ")")
	} else {
		port := u.Port()
		if port == "" {
			port = "3306"
		}
		b.WriteString("tcp(" + net.JoinHostPort(u.Hostname(), port) + ")")
	}
	b.WriteString("/" + url.PathEscape(strings.TrimPrefix(u.Path, "/")))
	if len(params) > 0 {
		b.WriteString("?" + params.Encode())
	}
	return b.String()
}

// systemDatabase is made by init --system.
const systemDatabase = "/var/lib/dibs/dibs.db"

// Database says which database to use, in the one order of every command:
// the --db flag, $DIBS_DATABASE_URL, the file (may be nil), the system's
// database if it exists, and the user's state folder. Source says which of
// them it was, for the first line of status.
//
// A relative sqlite path is relative to the working folder, that of the file to
// the file's folder. A URL without installation= gets the file's.
func Database(flag string, env func(string) string, f *File) (u URL, source string, err error) {
	return database(flag, env, f, exists)
}

func database(flag string, env func(string) string, f *File, exists func(string) bool) (URL, string, error) {
	text, source, dir := flag, "--db", ""
	switch {
	case flag != "":
	case env("DIBS_DATABASE_URL") != "":
		text, source = env("DIBS_DATABASE_URL"), "$DIBS_DATABASE_URL"
	case f != nil && f.Database != "":
		text, source, dir = f.Database, f.Path, filepath.Dir(f.Path)
	case exists(systemDatabase):
		text, source = "sqlite:"+systemDatabase, systemDatabase
	default:
		state := userFolder(env, "XDG_STATE_HOME", ".local", "state")
		if state == "" {
			return URL{}, "", &dibs.ConfigError{Subject: "database", Problem: "none is named, and there is no home folder to keep one in", Fix: "give --db or $DIBS_DATABASE_URL"}
		}
		path := filepath.Join(state, "dibs", "dibs.db")
		text, source = "sqlite:"+strings.NewReplacer("%", "%25", "?", "%3F").Replace(path), "the user's state folder"
	}
	u, bad := parseURL(text)
	if bad != nil {
		return URL{}, "", &dibs.ConfigError{Subject: source, Field: "database", Problem: "the URL " + bad.problem, Fix: bad.fix}
	}
	if u.Kind == SQLite && dir != "" && !filepath.IsAbs(u.DSN) {
		u.DSN = filepath.Join(dir, u.DSN)
		u.display = "sqlite:" + u.DSN
	}
	switch {
	case f == nil || f.Installation == "":
	case u.Installation == "":
		u.Installation = f.Installation
	case dir != "" && u.Installation != f.Installation:
		return URL{}, "", &dibs.ConfigError{Subject: source, Field: "installation", Problem: "the field and the URL's parameter differ", Fix: "keep one of them"}
	}
	return u, source, nil
}

// exists is false only when the path is certainly not there: what cannot be
// looked at must be reported by whoever opens it, not passed over.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil || !os.IsNotExist(err)
}

// userFolder is an XDG base folder, or "" without a home.
func userFolder(env func(string) string, name string, below ...string) string {
	if dir := env(name); filepath.IsAbs(dir) {
		return dir
	}
	home := env("HOME")
	if home == "" {
		return ""
	}
	return filepath.Join(append([]string{home}, below...)...)
}
