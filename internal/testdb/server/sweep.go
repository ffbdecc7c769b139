package server

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// sweepAge protects folders that are being made and are not locked yet.
const sweepAge = time.Minute

// lockFolder marks the folder as in use for as long as this process lives: the
// kernel gives the lock back even when the process is killed.
func lockFolder(folder string) (*os.File, error) {
	lock, err := os.OpenFile(filepath.Join(folder, "owner.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

// Sweep removes the folders of servers whose owner was killed before it could
// do so itself. Folders that are in use, young, or not ours are left alone.
func Sweep() error {
	var faults []error
	places := []string{FastFolder(), DiskFolder()}
	for _, place := range slices.Compact(places) {
		for _, kind := range []string{"postgres", "mariadb"} {
			folders, err := filepath.Glob(filepath.Join(place, folderPrefix+kind+"-*"))
			faults = append(faults, err)
			for _, folder := range folders {
				faults = append(faults, sweepFolder(folder))
			}
		}
	}
	return errors.Join(faults...)
}

func sweepFolder(folder string) error {
	info, err := os.Stat(folder)
	if err != nil || time.Since(info.ModTime()) < sweepAge {
		return nil // gone meanwhile, or young
	}
	lock, err := os.OpenFile(filepath.Join(folder, "owner.lock"), os.O_RDWR, 0)
	if err != nil {
		return nil // somebody else's
	}
	defer lock.Close()
	if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return nil // in use
	}
	if err := os.RemoveAll(folder); err != nil {
		return fmt.Errorf("remove what a killed test run left: %w", err)
	}
	return nil
}
