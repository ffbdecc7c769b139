package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/dibs-run/dibs"
	wrapped "github.com/dibs-run/dibs/command"
	"github.com/dibs-run/dibs/dispatch"
	"github.com/dibs-run/dibs/handler"
)

// variables are what the command learns about its run.
func (s *session) variables() []string {
	it := dibs.Item{Job: s.w.job.Name, Attempt: 1, Origin: s.trigger.Origin, Slot: s.trigger.Slot, Covered: s.trigger.Covered}
	if s.run != nil {
		it.RunID, it.Previous, it.Fence = s.run.ID, s.run.Previous, 1
		if !s.run.Slot.IsZero() {
			it.Slot = s.run.Slot
		}
		switch key := s.w.keyed(); {
		case key != "":
			it.WorkID = s.w.job.Name + "/" + key
		case !it.Slot.IsZero():
			it.WorkID = s.w.job.Name + "/" + it.Slot.UTC().Format(time.RFC3339)
		default:
			it.WorkID = s.trigger.ID
		}
	}
	if sched := s.w.schedule; sched != nil && !it.Slot.IsZero() {
		first := it.Slot
		for _, slot := range it.Covered {
			first = earlier(first, slot)
		}
		if before, ok := sched.Prev(first.Add(-1)); ok {
			it.WindowStart, it.WindowEnd = before, it.Slot
		}
	}
	if t := s.w.f.timeout; t > 0 {
		it.Deadline = time.Now().Add(t)
	}
	return handler.Environ(it)
}

// stream is where one of the command's outputs goes.
func (s *session) stream(w io.Writer) io.Writer {
	if s.w.f.output == outputAlways {
		return w
	}
	return nil
}

// tailBytes is how much of the output is kept, for the record or to be shown
// after a failure.
func (s *session) tailBytes() int {
	if s.w.f.output == outputOnFailure {
		return max(s.w.capture, 64<<10)
	}
	return s.w.capture
}

// end records how the run ended and says with which code to exit.
func (s *session) end(ctx context.Context, e ended) error {
	lost, refused, how, stopBy := s.keeper.state()
	end := s.verdict(e, lost, how, !stopBy.IsZero())
	end, err := s.record(ctx, end)
	if s.w.f.output == outputOnFailure && e.ExitCode != 0 {
		_, _ = s.app.out.w.Write(e.Tail) // whoever closed it does not want it
	}
	if flushed := e.Flushed; flushed != nil {
		select {
		case <-flushed:
		case <-time.After(flushWait):
		}
	}
	s.ping.finish(end.State == dibs.RunSucceeded && err == nil)
	return s.conclude(e, end, err, lost && refused)
}

// flushWait bounds the wait for a reader of our output that has gone slow.
const flushWait = 2 * time.Second

// verdict is how the run ended, as far as this process knows.
func (s *session) verdict(e ended, lost bool, how string, asked bool) dibs.RunEnd {
	code := e.ExitCode
	end := dibs.RunEnd{Run: s.run.Ref(), State: dibs.RunFailed, ExitCode: &code, Counts: dibs.Counts{Selected: 1}}
	if s.w.capture > 0 {
		end.Output = string(e.Tail[max(0, len(e.Tail)-s.w.capture):])
	}
	var startErr *wrapped.StartError
	switch {
	case lost && s.w.f.onLostWhat != "continue":
		end.State, end.Reason, end.Error = dibs.RunLost, dibs.ReasonLeaseLost, "the lease was lost: "+how
	case errors.As(e.err, &startErr):
		end.Error = startErr.Error()
	case asked:
		end.State, end.Reason = dibs.RunCancelled, dibs.ReasonStopBy // the row says why
	case errors.Is(e.cause, dibs.ErrTimeout):
		end.Reason, end.Error = dibs.ReasonMaxDuration, fmt.Sprintf("stopped after its time limit of %s", s.w.f.timeout)
	case e.Stopped:
		end.State, end.Reason = dibs.RunCancelled, dibs.ReasonStopped
		if e.Interrupted != nil {
			end.Error = "stopped by signal: " + e.Interrupted.String()
		}
	case e.ExitCode == 0:
		end.State = dibs.RunSucceeded
	case e.Signal != 0:
		end.Error = "ended by signal: " + e.Signal.String()
	}
	if lost && s.w.f.onLostWhat == "continue" {
		end.Error = joinText(end.Error, "the lease was lost ("+how+") and the command went on, as it was told to")
	}
	if e.OutputCut {
		end.Error = joinText(end.Error, "the output was cut: something left behind held it open")
	}
	end.Counts.Add(outcomeOf(end.State), 1)
	return end
}

// outcomeOf counts a command as the one item of its run.
func outcomeOf(s dibs.RunState) dibs.Outcome {
	switch s {
	case dibs.RunSucceeded:
		return dibs.OutcomeCompleted
	case dibs.RunLost:
		return dibs.OutcomeLost
	}
	return dibs.OutcomeFailed
}

func joinText(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

// record writes the end. While the database is away it is tried until the
// lease ends: afterwards the run is somebody else's to judge.
func (s *session) record(ctx context.Context, end dibs.RunEnd) (dibs.RunEnd, error) {
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), later(s.keeper.leaseEnd(), time.Now().Add(leastRecord)))
	defer cancel()
	for {
		finished, err := s.dispatch.End(ctx, dispatch.Finish{Run: *s.run, End: end, Lock: dispatch.LockOf(&s.w.job)})
		switch {
		case err == nil:
			return finished.End, nil
		case errors.Is(err, dibs.ErrStaleFence):
			if s.recorded(ctx, end) {
				return end, nil
			}
			return end, err
		case !errors.Is(err, dibs.ErrUnanswered) || ctx.Err() != nil:
			return end, err
		}
	}
}

// leastRecord is the time for the last write of a run whose lease has lapsed:
// nobody may have taken it.
const leastRecord = 5 * time.Second

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// recorded tells whether a refused end had been written before, by a call that
// was never answered.
func (s *session) recorded(ctx context.Context, end dibs.RunEnd) bool {
	run, err := s.store.Run(ctx, s.run.ID)
	return err == nil && run.State == end.State && run.ExitCode != nil && end.ExitCode != nil && *run.ExitCode == *end.ExitCode
}

// conclude says what has to be said, and the exit code.
func (s *session) conclude(e ended, end dibs.RunEnd, recorded error, refused bool) error {
	name := s.w.job.Name
	var startErr *wrapped.StartError
	switch {
	case errors.As(e.err, &startErr):
		s.app.say("%s: %v", name, startErr)
	case errors.Is(e.err, wrapped.ErrNotStopped):
		s.app.say("%s: %v: processes %v", name, e.err, e.Unstopped)
	case e.err != nil:
		s.app.say("%s: %v", name, e.err)
	}
	switch {
	case end.State == dibs.RunLost:
		s.app.say("%s: %s; the command was stopped (%s)", name, end.Error, dibs.ShortID(s.run.ID))
		return exitWith(exitLost)
	case errors.Is(recorded, dibs.ErrStaleFence), refused:
		s.app.say("%s: the lease was lost and the run taken over: exit code %d could not be recorded (%s)", name, e.ExitCode, dibs.ShortID(s.run.ID))
		return exitWith(exitLost)
	case recorded != nil:
		s.app.say("%s: exit code %d could not be recorded: %v", name, e.ExitCode, recorded)
		return exitWith(exitLost)
	case end.Reason == dibs.ReasonReplaced:
		s.app.say("%s: a newer run replaced this one (%s)", name, dibs.ShortID(s.run.ID))
		return exitWith(exitRefused)
	case end.Reason == dibs.ReasonCancelled:
		s.app.say("%s: somebody cancelled this run (%s)", name, dibs.ShortID(s.run.ID))
	case end.Reason == dibs.ReasonMaxDuration:
		s.app.say("%s: %s", name, end.Error)
	}
	if e.err != nil && startErr == nil && e.ExitCode == 0 {
		return exitWith(exitUnavailable)
	}
	return exitWith(e.ExitCode)
}
