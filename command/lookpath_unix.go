//go:build unix

package command

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// shellPath is searched when the environment has no PATH.
const shellPath = "/usr/local/bin:/usr/bin:/bin"

// lookup finds the file of a command as a shell does: a name with a slash is
// taken as it is, any other is looked up in the PATH of the child's
// environment, where an empty element is the working directory.
func lookup(name, dir string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		if err := executable(inDir(dir, name)); err != nil {
			return "", startError(name, err)
		}
		return name, nil
	}
	var refused error
	for _, elem := range filepath.SplitList(pathOf(env)) {
		if elem == "" {
			elem = "."
		}
		file := elem + "/" + name
		err := executable(inDir(dir, file))
		if err == nil {
			return file, nil
		}
		if errors.Is(err, fs.ErrPermission) && refused == nil {
			refused = err
		}
	}
	if refused != nil {
		return "", startError(name, refused)
	}
	return "", startError(name, fs.ErrNotExist)
}

func pathOf(env []string) string {
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			return v
		}
	}
	return shellPath
}

func inDir(dir, file string) string {
	if dir == "" || filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(dir, file)
}

func executable(file string) error {
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return syscall.EISDIR
	}
	if info.Mode()&0o111 == 0 {
		return fs.ErrPermission
	}
	return unix.Faccessat(unix.AT_FDCWD, file, unix.X_OK, unix.AT_EACCESS)
}

func startError(name string, err error) *StartError {
	code := CodeNotExecutable
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		code = CodeNotFound
	}
	return &StartError{Name: name, Code: code, Err: err}
}

// isScript reports whether a file that the kernel refused as no program can be
// given to the shell: its first line is text.
func isScript(file string) bool {
	f, err := os.Open(file)
	if err != nil {
		return false
	}
	defer f.Close()
	var head [128]byte
	n, _ := f.Read(head[:]) // an empty file is an empty script
	line, _, _ := bytes.Cut(head[:n], []byte("\n"))
	return bytes.IndexByte(line, 0) < 0
}
