package server

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestSweepFolderRemovesOnlyWhatNobodyUses(t *testing.T) {
	old := time.Now().Add(-2 * sweepAge)
	for name, test := range map[string]struct {
		locked, young, foreign, want bool
	}{
		"left behind": {want: false},
		"in use":      {locked: true, want: true},
		"young":       {young: true, want: true},
		"not ours":    {foreign: true, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			lock, err := lockFolder(folder)
			if err != nil {
				t.Fatal(err)
			}
			defer lock.Close()
			if !test.locked {
				lock.Close()
			}
			if test.foreign {
				if err := os.Remove(filepath.Join(folder, "owner.lock")); err != nil {
					t.Fatal(err)
				}
			}
			if !test.young {
				if err := os.Chtimes(folder, old, old); err != nil {
					t.Fatal(err)
				}
			}
			if err := sweepFolder(folder); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(folder); errors.Is(err, os.ErrNotExist) == test.want {
				t.Errorf("the folder: %v, want it kept: %v", err, test.want)
			}
		})
	}
}
