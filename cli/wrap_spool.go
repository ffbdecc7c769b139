package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dibs-run/dibs"
	wrapped "github.com/dibs-run/dibs/command"
)

// unprotectedRun is a run that was made without a database, as it lies in the
// state folder until a later invocation can record it.
type unprotectedRun struct {
	Run      string      `json:"run"`
	Trigger  string      `json:"trigger"`
	Job      string      `json:"job"`
	Database string      `json:"database"` // without its password
	Holder   dibs.Holder `json:"holder"`
	By       string      `json:"by"`
	Why      string      `json:"why"`
	Started  time.Time   `json:"started"`
	Ended    time.Time   `json:"ended"`
	ExitCode int         `json:"exit_code"`
	Output   []byte      `json:"output,omitempty"`
}

// reasonUnprotected is on the record of a run that held no lease.
const reasonUnprotected dibs.Reason = "unprotected"

// unprotected runs the command without a lease, since it was asked to rather
// run twice than not at all.
func (s *session) unprotected(ctx context.Context, why error) error {
	s.app.say("%s: runs without protection: %v", s.w.job.Name, why)
	s.trigger = dibs.Trigger{Job: s.w.job.Name, Origin: s.request().Origin}
	s.ping = newPinger(s.w.f.ping)
	child, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	go s.stopWith(child, stop)
	s.ping.send("/start")
	e := s.command(child)
	if err := s.spool(e, why); err != nil {
		s.app.say("%s: the run could not be noted down for later: %v", s.w.job.Name, err)
	}
	if s.w.f.output == outputOnFailure && e.ExitCode != 0 {
		_, _ = s.app.out.w.Write(e.Tail) // whoever closed it does not want it
	}
	s.ping.finish(e.ExitCode == 0 && e.err == nil)
	if e.err != nil {
		s.app.say("%s: %v", s.w.job.Name, e.err)
	}
	if errors.Is(e.err, wrapped.ErrNotStopped) && e.ExitCode == 0 {
		return exitWith(exitUnavailable)
	}
	return exitWith(e.ExitCode)
}

// spool notes the run down.
func (s *session) spool(e ended, why error) error {
	dir := s.app.spoolFolder()
	if dir == "" {
		return errors.New("there is no home folder to keep it in")
	}
	run, err := dibs.NewRunID()
	if err != nil {
		return err
	}
	trigger, err := dibs.NewTriggerID()
	if err != nil {
		return err
	}
	holder, err := dibs.NewHolder(instance(wrapped.Self()))
	if err != nil {
		return err
	}
	text, err := json.Marshal(unprotectedRun{
		Run: run, Trigger: trigger, Job: s.w.job.Name, Database: s.app.opened.url.String(), Holder: holder,
		By: s.w.act.actor(), Why: joinText(s.w.act.why, why.Error()),
		Started: e.Started, Ended: e.Ended, ExitCode: e.ExitCode, Output: e.Tail,
	})
	if err != nil {
		return fmt.Errorf("write the note: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	path := filepath.Join(dir, run)
	if err := os.WriteFile(path+".part", text, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".part", path+spoolSuffix)
}

const spoolSuffix = ".json"

// stateFolder is where this user's dibs keeps things, or "" without a home.
func (a *app) stateFolder() string {
	state := a.env("XDG_STATE_HOME")
	if !filepath.IsAbs(state) {
		if a.env("HOME") == "" {
			return ""
		}
		state = filepath.Join(a.env("HOME"), ".local", "state")
	}
	return filepath.Join(state, "dibs")
}

// spoolFolder is where unprotected runs wait, or "" without a home.
func (a *app) spoolFolder() string {
	if dir := a.stateFolder(); dir != "" {
		return filepath.Join(dir, "unprotected")
	}
	return ""
}

// tidy does what a wrapper owes the others while its command runs: it registers
// the job, records what ran unprotected, and ends what was left by the dead.
// Nothing of it can fail the run.
//
// Only a run that lasts looks for the dead, and one in sixteen of the short ones:
// a command that runs every minute on every host must not pay for it each time.
func (s *session) tidy(ctx context.Context) {
	if s.registered != s.w.hash {
		if err := s.register(ctx); err != nil && ctx.Err() == nil {
			s.app.say("%s: the definition could not be recorded: %v", s.w.job.Name, err)
		}
	}
	s.collect(ctx)
	if rand.IntN(16) != 0 && sleep(ctx, time.Second) != nil {
		return
	}
	if _, err := s.dispatch.Sweep(ctx); err != nil && ctx.Err() == nil {
		s.app.say("%s: dead runs could not be ended: %v", s.w.job.Name, err)
	}
}

// collect records the runs that were made without this database.
func (s *session) collect(ctx context.Context) {
	dir := s.app.spoolFolder()
	entries, err := os.ReadDir(dir)
	if dir == "" || err != nil {
		return // nothing ever ran so
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if !strings.HasSuffix(path, spoolSuffix) {
			continue
		}
		if err := s.collectOne(ctx, path); err != nil && ctx.Err() == nil {
			s.app.say("%s: %s could not be recorded: %v", s.w.job.Name, path, err)
		}
	}
}

func (s *session) collectOne(ctx context.Context, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) { // another invocation was faster
			return nil
		}
		return err
	}
	var u unprotectedRun
	if err := json.Unmarshal(text, &u); err != nil {
		return err
	}
	if u.Database != s.app.opened.url.String() {
		return nil
	}
	if _, err := s.store.Run(ctx, u.Run); errors.Is(err, dibs.ErrNotFound) {
		err = s.store.Decide(ctx, u.Job, func(ctx context.Context, desk dibs.Desk) error { return u.write(ctx, desk) })
		if err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	return os.Remove(path)
}

// write records the run beside the lock: it never had it.
func (u unprotectedRun) write(ctx context.Context, desk dibs.Desk) error {
	detail := fmt.Sprintf("ran without a database from %s to %s", u.Started.UTC().Format(time.RFC3339), u.Ended.UTC().Format(time.RFC3339))
	err := desk.PutTrigger(ctx, dibs.Trigger{
		ID: u.Trigger, Job: u.Job, Origin: dibs.OriginExternal, Decision: dibs.DecisionStarted, Reason: reasonUnprotected,
		Detail: detail, RunID: u.Run, By: u.By, Why: u.Why, CreatedAt: u.Started,
	})
	if err != nil {
		return err
	}
	run := &dibs.Run{
		ID: u.Run, Job: u.Job, Trigger: u.Trigger, Origin: dibs.OriginExternal, Kind: dibs.KindCommand,
		Holder: u.Holder, Token: dibs.ClaimToken(u.Run, 0), LeaseFor: time.Minute,
	}
	if err := desk.StartRun(ctx, run, false); err != nil {
		return err
	}
	end := dibs.RunEnd{
		Run: run.Ref(), State: dibs.RunFailed, Reason: reasonUnprotected, ExitCode: &u.ExitCode,
		Error: detail, Output: string(u.Output), Counts: dibs.Counts{Selected: 1},
	}
	if u.ExitCode == 0 {
		end.State = dibs.RunSucceeded
	}
	end.Counts.Add(outcomeOf(end.State), 1)
	return desk.EndRun(ctx, end)
}
