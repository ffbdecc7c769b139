package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/dibs-run/dibs"
	wrapped "github.com/dibs-run/dibs/command"
)

// redo tells whether the work of --once-per may be done again after a run that
// ended so (design: section 8; a command is the one item of its run).
func (w *wrapping) redo(spent dibs.Run) bool {
	switch {
	case spent.State == dibs.RunSucceeded, spent.State == dibs.RunRunning:
		return false
	case notApplied(spent):
		return true
	}
	return w.job.OnUncertain != dibs.Hold
}

// notApplied tells whether a run has certainly done nothing: its command could
// not be started, or says so itself with exit code 75.
func notApplied(r dibs.Run) bool {
	if r.ExitCode == nil {
		return r.State == dibs.RunLost && r.Reason == dibs.ReasonWaiterGone
	}
	switch *r.ExitCode {
	case exitRefused, wrapped.CodeNotExecutable, wrapped.CodeNotFound:
		return r.State == dibs.RunFailed
	}
	return false
}

// earlier lists the other runs for the same work, newest first.
func (s *session) earlier(ctx context.Context) ([]dibs.Run, error) {
	f := dibs.TriggerFilter{Job: s.w.job.Name, Limit: 100}
	if f.ExternalID = s.w.keyed(); f.ExternalID == "" {
		f.Slot = s.trigger.Slot
	}
	triggers, err := s.store.ListTriggers(ctx, f)
	if err != nil {
		return nil, err
	}
	var runs []dibs.Run
	for _, t := range triggers {
		if t.RunID == "" || t.RunID == s.run.ID {
			continue
		}
		run, err := s.store.Run(ctx, t.RunID)
		if errors.Is(err, dibs.ErrNotFound) {
			continue // pruned
		}
		if err != nil {
			return nil, err
		}
		runs = append(runs, run)
	}
	return runs, nil
}

// once asks, under the lease, whether the work is done already. The answer has
// an end if the command is not to be run.
func (s *session) once(ctx context.Context) (*dibs.RunEnd, error) {
	if s.w.f.oncePer == "" {
		return nil, nil
	}
	runs, err := s.earlier(ctx)
	if err != nil {
		return nil, err
	}
	unclear := ""
	for _, r := range runs {
		if r.State == dibs.RunSucceeded {
			return s.alreadyDone("done by " + dibs.ShortID(r.ID)), nil
		}
		if !notApplied(r) && unclear == "" {
			unclear = r.ID
		}
	}
	_, lookup, _ := strings.Cut(s.w.f.onUncertain, "=")
	if unclear == "" || lookup == "" {
		return nil, nil
	}
	return s.lookUp(ctx, lookup, unclear)
}

func (s *session) alreadyDone(why string) *dibs.RunEnd {
	return &dibs.RunEnd{
		Run: s.run.Ref(), State: dibs.RunSucceeded, Reason: dibs.ReasonSlotSpent, Error: why,
		Counts: dibs.Counts{Selected: 1, AlreadyDone: 1},
	}
}

// lookUp asks the destination, by the user's command, what became of an earlier
// attempt: exit 0 means that it is there, 1 that it is not.
func (s *session) lookUp(ctx context.Context, lookup, unclear string) (*dibs.RunEnd, error) {
	ctx, cancel := context.WithDeadline(ctx, s.keeper.killBy())
	defer cancel()
	c := exec.CommandContext(ctx, "/bin/sh", "-c", lookup) //nolint:gosec // running what the user names is the purpose
	c.Env = append(s.environment(), "DIBS_PREVIOUS=lost:"+unclear)
	out, err := c.CombinedOutput()
	code := -1
	if c.ProcessState != nil {
		code = c.ProcessState.ExitCode()
	}
	switch {
	case err == nil:
		return s.alreadyDone(joinText("found: the earlier attempt "+dibs.ShortID(unclear)+" arrived", oneLine(string(out), 200))), nil
	case code == 1:
		return nil, nil
	}
	return &dibs.RunEnd{
		Run: s.run.Ref(), State: dibs.RunFailed, Reason: dibs.ReasonHeld,
		Error:  fmt.Sprintf("what became of %s could not be found out (%v): %s", dibs.ShortID(unclear), err, oneLine(string(out), 200)),
		Counts: dibs.Counts{Selected: 1, Held: 1},
	}, nil
}

// withoutCommand records an end that the look at the past decided.
func (s *session) withoutCommand(ctx context.Context, end dibs.RunEnd) error {
	_, err := s.record(ctx, end)
	switch {
	case err != nil:
		return err
	case end.State == dibs.RunSucceeded:
		if isTerminal(s.app.log) {
			s.app.say("%s: %s", s.w.job.Name, end.Error)
		}
		return nil
	}
	s.app.say("%s: %s (%s)", s.w.job.Name, end.Error, dibs.ShortID(s.run.ID))
	return exitWith(exitRefused)
}

// register keeps the definition; nothing is written when it is known.
func (s *session) register(ctx context.Context) error {
	record := dibs.JobRecord{Name: s.w.job.Name, Hash: s.w.hash, Text: s.w.job.Definition}
	if err := s.store.Register(ctx, []dibs.JobRecord{record}); err != nil {
		return err
	}
	s.registered = s.w.hash
	return nil
}

// look reads the job's last runs: how the former one ended, for the command,
// and whether several hosts fire it without anything that tells their triggers
// apart. Nothing of it can fail the run.
func (s *session) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookFor)
	defer cancel()
	runs, err := s.store.ListRuns(ctx, dibs.RunFilter{Job: s.w.job.Name, Limit: 2})
	if err != nil {
		return
	}
	for _, r := range runs {
		if r.ID == s.run.ID {
			continue
		}
		if r.State == dibs.RunLost && s.run.Previous == "" && r.Reason != dibs.ReasonWaiterGone {
			s.run.Previous = "lost:" + r.ID
		}
		if r.Holder.Host != s.holder.Host && s.w.schedule == nil && s.w.slot.IsZero() && s.w.f.notWithin == 0 && !s.w.f.manual && s.w.f.oncePer == "" {
			s.warnHosts(r.Holder.Host)
		}
		return
	}
}

// lookFor bounds the look at the past.
const lookFor = 2 * time.Second

// warnHosts says once, on this host, that two hosts fire the same job.
func (s *session) warnHosts(other string) {
	dir := s.app.stateFolder()
	if dir == "" {
		return
	}
	mark := filepath.Join(dir, "warned-hosts-"+s.w.hash)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return
	}
	f, err := os.OpenFile(mark, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return // it was said, or cannot be noted
	}
	_ = f.Close() // empty
	s.app.say("%s: %s and %s both start it: with a short command each runs it once per firing; give --schedule, or --not-within 30s, or --per-host (said once)",
		s.w.job.Name, s.holder.Host, other)
}
