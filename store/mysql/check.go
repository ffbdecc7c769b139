package mysql

import (
	"context"
	"fmt"

	"github.com/dibs-run/dibs"
)

// Check verifies that the pool counts the rows that an UPDATE found; without
// that every guarded write that happens to change nothing looks refused. The
// fault is a [dibs.ConfigError]. It needs our tables and changes nothing.
func (s *Store) Check(ctx context.Context) error {
	found, err := s.CountsFoundRows(ctx)
	if err != nil {
		return fmt.Errorf("check the connection: %w", err)
	}
	if !found {
		return &dibs.ConfigError{
			Subject: "MySQL connection", Field: "clientFoundRows",
			Problem: "an UPDATE answers with the rows that it changed, not with those that it found",
			Fix:     "open the database with clientFoundRows=true",
		}
	}
	return nil
}
