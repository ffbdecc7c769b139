//go:build !linux

package sqlite

import (
	"fmt"
	"os"
	"path/filepath"
)

// fileIdentity knows only the path here: a copy under the same path is not
// noticed.
func fileIdentity(path string) (string, error) {
	if _, err := os.Stat(path); err != nil {
		return "", err
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("absolute path: %w", err)
	}
	return "path/" + abs, nil
}

// unfitFileSystem cannot tell here.
func unfitFileSystem(string) (string, error) { return "", nil }
