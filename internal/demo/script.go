package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dibs-run/dibs"
)

// The roles.
const (
	job     = "crm-sync"
	failing = "acct-0113"
	ticks   = 5
	// noteTakes is how slow the CRM is, so that there is something to see: a batch
	// takes two to three seconds.
	noteTakes = 400 * time.Millisecond
	// patience bounds each wait for something that should happen in a moment.
	patience = 20 * time.Second
)

// script is the story of the demo.
type script struct {
	*stage
	out      *printer
	began    time.Time
	five     []*process
	victim   int // its place among the five
	dead     liveRun
	evidence Evidence
}

func (s *script) run(ctx context.Context) error {
	s.began = time.Now()
	where := "removed at the end, --keep keeps them"
	if s.kept {
		where = "kept"
	}
	s.out.line("%s  five runs of one job at the same instant, one of them killed", s.out.paint(bold, "dibs demo"))
	s.out.line("files      %s (%s)", s.dir, where)
	for _, act := range []func(context.Context) error{
		s.setUp, s.fiveTimers, s.personComesIn, s.oneDies, s.othersGoOn, s.nextTick, s.compare,
	} {
		if err := act(ctx); err != nil {
			return err
		}
	}
	return nil
}

// setUp makes the table, the CRM and the job's file, and lets the program adopt
// the table.
func (s *script) setUp(ctx context.Context) error {
	all, err := accounts()
	if err != nil {
		return err
	}
	if s.db, err = s.open(ctx, s.path(fileDatabase)); err != nil {
		return fmt.Errorf("open the database: %w", err)
	}
	if err := load(ctx, s.db, all); err != nil {
		return err
	}
	rules, err := json.Marshal([]Rule{{Fault: FaultSlow, After: Duration(noteTakes)}, {Fault: FaultFail, Account: failing}})
	if err != nil {
		return fmt.Errorf("write the CRM's rules: %w", err)
	}
	url, err := s.startCRM(ctx, string(rules))
	if err != nil {
		return err
	}
	text := strings.ReplaceAll(string(configYAML), "${CRM_URL:-http://127.0.0.1:8321}", url)
	if err := os.WriteFile(s.path(fileConfig), []byte(text), 0o600); err != nil {
		return fmt.Errorf("write the job's file: %w", err)
	}
	s.out.act(1, "A table of 300 accounts, and a CRM in a process of its own")
	s.out.say("table   account_config in app.db, from accounts.csv")
	s.out.say("CRM     %s takes %s for a note and answers 500 \"try later\" for %s", strings.TrimPrefix(url, "http://"), noteTakes, failing)
	s.out.say("job     dibs.yaml: batches of 25, 4 at a time, lease 10s")
	if err := s.do(ctx, "init"); err != nil {
		return err
	}
	return s.do(ctx, "adopt", "account_config", "--key", "account_id", "--apply")
}

// do runs a command that must succeed, and shows that it did.
func (s *script) do(ctx context.Context, args ...string) error {
	file := args[0] + ".txt"
	code, text, err := s.command(ctx, file, args...)
	if err == nil && code != exitOK && !s.local && strings.Contains(text, "--allow-local-db") {
		s.local = true
		s.out.say("(this folder needs --allow-local-db: each command below has it)")
		code, text, err = s.command(ctx, file, args...)
	}
	if err != nil {
		return err
	}
	s.out.prompt("dibs "+strings.Join(args, " "), "")
	if code != exitOK {
		s.out.quote(text)
		return fmt.Errorf("dibs %s ended with %d", args[0], code)
	}
	return nil
}

// fiveTimers starts five ticks at the same instant and waits until each has rows.
func (s *script) fiveTimers(ctx context.Context) error {
	s.out.act(2, "Five timers fire at the same instant")
	var err error
	if s.five, err = s.startTogether(ctx, ticks, "tick", "tick", job); err != nil {
		return err
	}
	s.out.prompt("dibs tick "+job, "five times at once: "+s.pids())
	var seen map[int]liveRun
	err = s.until(ctx, "five runs with rows in hand", func() (done bool, err error) {
		seen, err = runs(ctx, s.db)
		n := 0
		for _, p := range s.five {
			r, there := seen[p.cmd.Process.Pid]
			if !there && !p.running() {
				return false, s.died(p)
			}
			if there && r.selected+r.inHand+r.done > 0 {
				n++
			}
		}
		return n == ticks, err
	})
	if err != nil {
		return err
	}
	for _, p := range s.five {
		r := seen[p.cmd.Process.Pid]
		s.out.say("run %s   pid %-7d %2d rows in hand, %d done", dibs.ShortID(r.id), r.pid, r.inHand, r.done)
	}
	return nil
}

func (s *script) pids() string {
	var all []string
	for _, p := range s.five {
		all = append(all, fmt.Sprint(p.cmd.Process.Pid))
	}
	return "pids " + strings.Join(all, " ")
}

// died reports a process that ended when it should not have.
func (s *script) died(p *process) error {
	text, err := p.text()
	return errors.Join(fmt.Errorf("a tick ended with %d before it had a run:\n%s", p.code, text), err)
}

// until asks the database again and again until what holds.
func (s *script) until(ctx context.Context, what string, holds func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("waited %s in vain for %s", patience, what))
	defer cancel()
	t := time.NewTicker(20 * time.Millisecond)
	defer t.Stop()
	for {
		if done, err := holds(); done || err != nil {
			return err
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// personComesIn asks for an account that a run has, and for one that is free.
func (s *script) personComesIn(ctx context.Context) error {
	s.out.act(3, "A person wants one account now")
	if err := s.byHand(ctx, pickInProgress, "in progress", exitRefused); err != nil {
		return err
	}
	return s.byHand(ctx, pickFree, "free", exitOK)
}

// tries is how often a person asks: an account may change between the look and
// the question.
const tries = 3

// byHand runs the job for one account that query finds, and wants this answer.
func (s *script) byHand(ctx context.Context, query, what string, want int) error {
	for n := 1; ; n++ {
		key, err := pick(ctx, s.db, query)
		if err != nil {
			return err
		}
		if key == "" {
			return fmt.Errorf("found no account that is %s: the ticks were too fast", what)
		}
		code, text, err := s.command(ctx, fmt.Sprintf("run-%s.txt", key), "run", job, "--key", key)
		if err != nil {
			return err
		}
		s.out.prompt("dibs run "+job+" --key "+key, fmt.Sprintf("%s; exit %d", what, code))
		s.out.quote(squeeze(text))
		if code == want {
			return nil
		}
		if n == tries {
			return fmt.Errorf("a run of an account that is %s ended with %d, and should with %d", what, code, want)
		}
		s.out.say("that one had moved on; once more")
	}
}

// squeeze leaves out empty lines.
func squeeze(text string) string {
	var kept []string
	for l := range strings.SplitSeq(text, "\n") {
		if strings.TrimSpace(l) != "" {
			kept = append(kept, l)
		}
	}
	return strings.Join(kept, "\n")
}

// oneDies kills one of the five in the middle of a batch: it has recorded
// something and has more in hand.
func (s *script) oneDies(ctx context.Context) error {
	s.out.act(4, "One of the five dies")
	err := s.until(ctx, "a run in the middle of a batch", func() (bool, error) {
		seen, err := runs(ctx, s.db)
		left := false
		for i, p := range s.five {
			r := seen[p.cmd.Process.Pid]
			left = left || p.running()
			if r.inHand >= 8 && r.done > 0 && p.running() {
				s.victim = i
				return true, p.cmd.Process.Kill()
			}
		}
		if err == nil && !left {
			err = errors.New("the ticks ended before one could be killed")
		}
		return false, err
	})
	if err != nil {
		return err
	}
	p := s.five[s.victim]
	if _, err := p.wait(ctx); err != nil {
		return err
	}
	seen, err := runs(ctx, s.db)
	if err != nil {
		return err
	}
	s.dead = seen[p.cmd.Process.Pid]
	ends, now, err := inHand(ctx, s.db, s.dead.id)
	if err != nil {
		return err
	}
	if len(ends) == 0 {
		return fmt.Errorf("the run %s was killed but had no rows in hand", s.dead.id)
	}
	s.evidence.LeaseEnds = map[Claim]time.Time{}
	for key, end := range ends {
		s.evidence.LeaseEnds[Claim{s.dead.id, key}] = end
	}
	s.out.prompt(fmt.Sprintf("kill -9 %d", s.dead.pid), fmt.Sprintf("run %s: %d done, %d rows in hand", dibs.ShortID(s.dead.id), s.dead.done, len(ends)))
	s.out.say("nobody may touch them before its lease ends at %s, in %.1fs", s.leaseEnd().Format("15:04:05.0"), s.leaseEnd().Sub(now).Seconds())
	return nil
}

// leaseEnd is the last end among the rows and the run itself.
func (s *script) leaseEnd() time.Time {
	end := s.dead.leaseEnd
	for _, e := range s.evidence.LeaseEnds {
		if e.After(end) {
			end = e
		}
	}
	return end
}

// othersGoOn waits for the four that live, and shows one of them in full.
func (s *script) othersGoOn(ctx context.Context) error {
	s.out.act(5, "The other four go on")
	for _, p := range s.five {
		if _, err := p.wait(ctx); err != nil {
			return err
		}
	}
	seen, err := runs(ctx, s.db)
	if err != nil {
		return err
	}
	full := -1
	for i, p := range s.five {
		if i == s.victim {
			continue
		}
		r := seen[p.cmd.Process.Pid]
		s.out.say("run %s   claimed %3d = %3d completed + %d failed   exit %d", dibs.ShortID(r.id), r.selected, r.completed, r.failed, p.code)
		if p.code != exitOK && p.code != exitFailed {
			text, err := p.text()
			s.out.quote(text)
			return errors.Join(fmt.Errorf("a tick ended with %d", p.code), err)
		}
		if full < 0 || r.failed > seen[s.five[full].cmd.Process.Pid].failed {
			full = i
		}
	}
	text, err := s.five[full].text()
	if err != nil {
		return err
	}
	s.out.line("")
	s.out.prompt("cat "+filepath.Base(s.five[full].output), "one of them in full")
	s.out.quote(text)
	return nil
}

// nextTick waits for the end of the dead run's lease by the database's clock,
// and ticks.
func (s *script) nextTick(ctx context.Context) error {
	s.out.act(6, "The next tick, when the lease of the dead run has ended")
	err := s.until(ctx, "the lease to end", func() (bool, error) {
		left, now, err := inHand(ctx, s.db, s.dead.id)
		if gone := len(s.evidence.LeaseEnds) - len(left); err == nil && gone > 0 {
			s.out.say("%s", s.out.paint(bad, plural(gone, "row")+" changed hands already"))
			return true, nil // the comparison will say what that means
		}
		return now.After(s.leaseEnd()), err
	})
	if err != nil {
		return err
	}
	code, text, err := s.command(ctx, "tick-next.txt", "tick", job)
	if err != nil {
		return err
	}
	s.out.prompt("dibs tick "+job, fmt.Sprintf("exit %d", code))
	s.out.quote(text)
	if code != exitOK && code != exitFailed {
		return fmt.Errorf("the next tick ended with %d", code)
	}
	if err := readDatabase(ctx, s.db, &s.evidence); err != nil {
		return err
	}
	if n, gap := s.evidence.firstTakeover(); n > 0 {
		s.out.say("%s changed hands, the first %s after the end of its lease", plural(n, "row"), gap.Round(time.Millisecond))
	}
	return nil
}

// compare reads both sides and judges.
func (s *script) compare(ctx context.Context) error {
	var err error
	if s.evidence.Requests, err = ReadRequests(s.path(fileCRM)); err != nil {
		return err
	}
	sides := Compare(s.evidence)
	s.out.sides(sides, failing)
	faults := sides.Faults(failing)
	if n := len(s.evidence.LeaseEnds); sides.TookOver != n {
		faults = append(faults, fmt.Sprintf("the dead run had %s, and %d were taken over", plural(n, "row"), sides.TookOver))
	}
	s.out.line("")
	if len(faults) > 0 {
		for _, f := range faults {
			s.out.line("%s  %s", s.out.paint(bad, "wrong"), f)
		}
		return errors.New("not as it should be")
	}
	s.out.line("%s  as it should be   %.0fs", s.out.paint(good, "ok"), time.Since(s.began).Seconds())
	return nil
}
