package server

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// MissingError says that a program or library is not on this machine, and which
// Debian package brings it.
type MissingError struct {
	What    string // the program or file
	Package string // the name of the package in Debian and Ubuntu
}

// Error names what is missing and how to get it.
func (e *MissingError) Error() string {
	return fmt.Sprintf("%s is missing; install it with: apt-get install %s", e.What, e.Package)
}

// MissingPackages lists the Debian packages without which the servers cannot be
// started; empty when everything is there.
func MissingPackages() []string {
	_, postgres := findPostgres()
	_, mariadb := findMariaDB()
	_, faketime := findFaketime()
	var packages []string
	for _, err := range []error{postgres, mariadb, faketime} {
		var missing *MissingError
		if errors.As(err, &missing) {
			packages = append(packages, missing.Package)
		}
	}
	return packages
}

// findPostgres is the folder with the newest initdb and postgres: Debian keeps
// them out of PATH, one folder for each major version.
func findPostgres() (string, error) {
	candidates, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		return "", err
	}
	best, bestVersion := "", -1
	for _, folder := range candidates {
		version, err := strconv.Atoi(filepath.Base(filepath.Dir(folder)))
		if err == nil && version > bestVersion && isProgram(folder, "initdb") && isProgram(folder, "postgres") {
			best, bestVersion = folder, version
		}
	}
	if best != "" {
		return best, nil
	}
	if initdb, err := exec.LookPath("initdb"); err == nil {
		if folder := filepath.Dir(initdb); isProgram(folder, "postgres") {
			return folder, nil
		}
	}
	return "", &MissingError{What: "the PostgreSQL server (initdb, postgres)", Package: "postgresql"}
}

// findMariaDB is the path of mariadbd; it lies in sbin, which is not in the
// PATH of every user.
func findMariaDB() (string, error) {
	if _, err := findProgram("mariadb-install-db"); err == nil {
		if daemon, err := findProgram("mariadbd"); err == nil {
			return daemon, nil
		}
	}
	return "", &MissingError{What: "the MariaDB server (mariadbd, mariadb-install-db)", Package: "mariadb-server"}
}

func findProgram(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	for _, folder := range []string{"/usr/sbin", "/usr/local/sbin", "/usr/bin", "/usr/local/bin"} {
		if isProgram(folder, name) {
			return filepath.Join(folder, name), nil
		}
	}
	return "", fmt.Errorf("%s: %w", name, exec.ErrNotFound)
}

func isProgram(folder, name string) bool {
	info, err := os.Stat(filepath.Join(folder, name))
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

// findFaketime is the path of the library that gives a program another clock.
func findFaketime() (string, error) {
	patterns := []string{
		"/usr/lib/*-linux-gnu*/faketime/libfaketimeMT.so.1",
		"/usr/lib*/faketime/libfaketimeMT.so.1",
		"/usr/local/lib/faketime/libfaketimeMT.so.1",
	}
	for _, pattern := range patterns {
		if found, err := filepath.Glob(pattern); err == nil && len(found) > 0 {
			return found[0], nil
		}
	}
	return "", &MissingError{What: "libfaketime (libfaketimeMT.so.1)", Package: "libfaketime"}
}

// environment is what a server sees: little, so that the settings of the person
// who runs the tests (PGDATA, TZ, LC_ALL, MYSQL_HOME) change nothing.
func environment(clock string) ([]string, error) {
	env := []string{"PATH=" + os.Getenv("PATH") + ":/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "TZ=UTC", "HOME=/nonexistent"}
	if clock == "" {
		return env, nil
	}
	if runtime.GOOS != "linux" {
		return nil, fmt.Errorf("a clock of %s needs Linux", clock)
	}
	offset, err := time.ParseDuration(clock)
	if err != nil {
		return nil, fmt.Errorf("clock offset %q: %w; write it as +1h or -90m", clock, err)
	}
	library, err := findFaketime()
	if err != nil {
		return nil, err
	}
	seconds := strconv.FormatFloat(offset.Seconds(), 'f', -1, 64)
	if !strings.HasPrefix(seconds, "-") {
		seconds = "+" + seconds
	}
	// The monotonic clock stays real: the servers' own waits are none of our
	// business. Both spellings, for old and new versions of the library.
	return append(env, "LD_PRELOAD="+library, "FAKETIME="+seconds,
		"DONT_FAKE_MONOTONIC=1", "FAKETIME_DONT_FAKE_MONOTONIC=1"), nil
}
