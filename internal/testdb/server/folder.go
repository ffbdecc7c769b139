package server

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"syscall"
)

const (
	folderPrefix = "dibs-"
	memoryFolder = "/dev/shm"
	memoryNeeded = 2 << 30 // bytes that must be free in memoryFolder
	// The path of a unix socket holds 107 bytes at most, and the longest name
	// below the parent is about 45 bytes.
	longestParent = 60

	// Ports below the range from which the kernel takes the ports of outgoing
	// connections, so that a stopped server gets its port back.
	firstPort, lastPort = 15000, 31999
)

// FastFolder is the fastest place for short-lived data: the memory file system
// if there is one with at least 2 GiB free, else the temporary folder.
func FastFolder() string {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(memoryFolder, &stat); err == nil &&
		stat.Bavail*uint64(stat.Bsize) >= memoryNeeded && syscall.Access(memoryFolder, 2) == nil {
		return memoryFolder
	}
	return DiskFolder()
}

// DiskFolder is the temporary folder, or /tmp where its path is too long to
// hold a socket.
func DiskFolder() string {
	if dir := os.TempDir(); len(dir) <= longestParent {
		return dir
	}
	return "/tmp"
}

// makeFolder makes a folder of the account that others may enter, for the
// socket's sake; the data folder inside is closed to them.
func makeFolder(parent, prefix string, owner account) (string, error) {
	folder, err := os.MkdirTemp(parent, prefix)
	if err != nil {
		return "", err
	}
	if err := errors.Join(os.Chmod(folder, 0o755), owner.own(folder)); err != nil {
		return "", errors.Join(err, os.RemoveAll(folder))
	}
	return filepath.Clean(folder), nil
}

// FreePort picks a random port of 127.0.0.1 that nobody listens on now. Somebody may take it
// before the server does: then the server does not start, and another is tried.
func FreePort() (int, error) {
	for range 100 {
		offset, err := rand.Int(rand.Reader, big.NewInt(lastPort-firstPort+1))
		if err != nil {
			return 0, fmt.Errorf("choose a port: %w", err)
		}
		port := firstPort + int(offset.Int64())
		probe, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
		if err != nil {
			continue
		}
		if err := probe.Close(); err != nil {
			return 0, fmt.Errorf("give back port %d: %w", port, err)
		}
		return port, nil
	}
	return 0, fmt.Errorf("no free port between %d and %d", firstPort, lastPort)
}

// randomText is a password: 32 hexadecimal digits.
func randomText() string {
	raw := make([]byte, 16)
	_, _ = rand.Read(raw) // never fails: it ends the program instead
	return hex.EncodeToString(raw)
}
