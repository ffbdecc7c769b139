package schedule

import (
	"bufio"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// TZData says where the rules of a zone come from. Two hosts with different
// versions may compute different slots, so it belongs into every status.
type TZData struct {
	Version string // as the IANA names it, for example 2025c; "unknown" if the source does not say
	Source  string // a directory or file of the host, or the binary
}

// String is the version and its source.
func (d TZData) String() string { return d.Version + " (" + d.Source + ")" }

// zoneDirs are the places where Go looks for zones on Unix before it falls
// back on the copy within the binary; it is read only.
var zoneDirs = [...]string{"/usr/share/zoneinfo", "/usr/share/lib/zoneinfo", "/usr/lib/locale/TZ", "/etc/zoneinfo"}

// builtin maps a Go release to the zone data that it puts into binaries. A
// test compares the entry of the running release with what that release says
// of itself, so that none is released without its entry. It is read only.
var builtin = map[string]string{
	"go1.26.8": "2025c",
}

// TZDataVersion reports the data in use for a zone, found the way package
// time finds it: $ZONEINFO, the host's directories, the copy in the binary.
// It reads the host's files at each call.
func TZDataVersion(zone string) TZData {
	return tzDataVersion(zone, os.Getenv("ZONEINFO"), zoneDirs[:])
}

func tzDataVersion(zone, env string, dirs []string) TZData {
	if env != "" {
		if info, err := os.Stat(env); err == nil && !info.IsDir() {
			return TZData{"unknown", env} // a zip file carries no version
		}
		dirs = append([]string{env}, dirs...)
	}
	for _, dir := range dirs {
		if info, err := os.Stat(filepath.Join(dir, filepath.FromSlash(zone))); err == nil && !info.IsDir() {
			return TZData{dirVersion(dir), dir}
		}
	}
	version, ok := builtin[runtime.Version()]
	if !ok {
		version = "unknown"
	}
	return TZData{version, "in the binary, " + runtime.Version()}
}

// dirVersion reads the version from the files that distributions install
// beside the zones.
func dirVersion(dir string) string {
	if line, ok := firstLine(filepath.Join(dir, "tzdata.zi")); ok {
		if version, found := strings.CutPrefix(line, "# version "); found {
			return version
		}
	}
	for _, name := range []string{"+VERSION", "VERSION"} {
		if line, ok := firstLine(filepath.Join(dir, name)); ok && len(line) < 20 {
			return line
		}
	}
	return "unknown"
}

func firstLine(path string) (string, bool) {
	f, err := os.Open(path)
	if err != nil {
		return "", false
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	if !lines.Scan() {
		return "", false
	}
	return strings.TrimSpace(lines.Text()), true
}
