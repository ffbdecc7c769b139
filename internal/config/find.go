package config

import (
	"path/filepath"

	"github.com/dibs-run/dibs"
)

// FileName is the file's name wherever it is looked for.
const FileName = "dibs.yaml"

// Find says which file to load: the --config flag, ./dibs.yaml, $DIBS_CONFIG,
// the user's configuration folder (XDG), /etc/dibs. An empty path without an
// error means that there is none, which is fine for the wrapper. A file that is
// named and is not there is an error, never passed over.
func Find(flag string, env func(string) string) (path string, err error) {
	return find(flag, env, exists)
}

func find(flag string, env func(string) string, exists func(string) bool) (string, error) {
	if flag != "" {
		return named(flag, "--config", exists)
	}
	if exists(FileName) {
		return FileName, nil
	}
	if path := env("DIBS_CONFIG"); path != "" {
		return named(path, "$DIBS_CONFIG", exists)
	}
	folders := []string{"/etc/dibs"}
	if user := userFolder(env, "XDG_CONFIG_HOME", ".config"); user != "" {
		folders = append([]string{filepath.Join(user, "dibs")}, folders...)
	}
	for _, folder := range folders {
		if path := filepath.Join(folder, FileName); exists(path) {
			return path, nil
		}
	}
	return "", nil
}

func named(path, by string, exists func(string) bool) (string, error) {
	if !exists(path) {
		return "", &dibs.ConfigError{Subject: path, Problem: "there is no such file, and " + by + " names it", Fix: "correct " + by}
	}
	return path, nil
}
