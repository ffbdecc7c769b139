package cli

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/dibs-run/dibs"
	"github.com/dibs-run/dibs/internal/sqlstore"
	"github.com/dibs-run/dibs/runner"
)

// arithmetic checks whether beats, grace and margin fit into the lease.
func (c *checked) arithmetic(w *work) {
	a, err := runner.ArithmeticOf(w.Job)
	var config *dibs.ConfigError
	if errors.As(err, &config) {
		c.add(sqlstore.Wrong, "lease", "job "+w.Name+", "+config.Field, config.Problem, "a live handler would lose its lease, or a dead one keep it", config.Fix)
		return
	}
	beats := "not renewed"
	if a.Beat > 0 {
		beats = "renewed every " + span(a.Beat)
	}
	timeout := "no time limit per item"
	if w.Timeout > 0 {
		timeout = "time limit " + span(w.Timeout)
	}
	c.add(sqlstore.Fine, "lease", "job "+w.Name,
		fmt.Sprintf("lease %s, %s, grace %s, margin %s, %s", span(a.Lease), beats, span(a.Grace), span(a.Margin), timeout), "", "")
	if a.Beat > 0 && w.Timeout == 0 && w.Source != nil {
		c.add(sqlstore.Noted, "timeout", "job "+w.Name+", timeout", "a handler may run for ever", "its lease is renewed as long as it runs, so nobody takes over from one that hangs", "set timeout")
	}
}

// zone checks the zone in which the job's times are read and shown.
func (c *checked) zone(w *work) {
	if w.file == nil || w.file.TimeZone == "" {
		return
	}
	name := w.file.TimeZone
	if _, err := time.LoadLocation(name); err != nil || strings.EqualFold(name, "local") {
		c.add(sqlstore.Wrong, "zone", "job "+w.Name+", time_zone", "there is no zone "+name, "UTC in its place would be hours off, silently", "use an IANA name such as Europe/Berlin")
		return
	}
	c.add(sqlstore.Fine, "zone", "job "+w.Name, "times in "+name, "", "")
}

// handler checks that a program to be run is there.
func (c *checked) handler(w *work) {
	if w.file == nil || w.file.Handler == nil || len(w.file.Handler.Exec) == 0 {
		return
	}
	argv := w.file.Handler.Exec
	if _, err := exec.LookPath(argv[0]); err != nil && !errors.Is(err, exec.ErrDot) {
		fix := "correct the path; a relative one is looked up from where dibs is started"
		if !strings.ContainsRune(argv[0], filepath.Separator) {
			fix = "install it, or give its full path"
		}
		c.add(sqlstore.Doubtful, "handler", "job "+w.Name+", handler", "the program "+argv[0]+" cannot be run here", "every item would come back as not applied", fix)
	}
}
