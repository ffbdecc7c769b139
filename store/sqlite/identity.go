package sqlite

import (
	"context"
	"fmt"

	"github.com/dibs-run/dibs/internal/sqlstore"
)

// identity names this very file, so that a copy is noticed: its inode and, where
// the file system tells it, its time of birth. Both survive a restart and a
// remount, which the device number and the path do not.
func identity(_ context.Context, _ sqlstore.Querier, meta map[string]string) (string, error) {
	path := meta["here"]
	if path == "" {
		return "memory", nil
	}
	id, err := fileIdentity(path)
	if err != nil {
		return "", fmt.Errorf("identify the database file: %w", err)
	}
	return id, nil
}
